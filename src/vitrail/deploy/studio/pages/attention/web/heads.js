// The wall: for the chosen patch, what every head of every layer attends to.

import { make } from "/static/dom.js";
import { follow } from "./looks.js";
import { isNearlyEven, paintMap, scaleOfShares } from "/static/scales.js";
import { cellAt, change, chosenCell, gridOf, headOf, layerOf, nobody, state } from "./state.js";
import { asker, capital, largest, percent, place } from "/static/words.js";

export const heads = { id: "heads", words: "Heads", hint: "All layers and heads at once", able: ({ attention }) => attention, build };
const LIVE = 6000; // numbers a wall may hold to follow the pointer; larger ones follow the pinned patch

function build() {
  const title = make("h3");
  const wall = make("div", { class: "head-wall" });
  const together = make("button", { type: "button", class: "quiet", "aria-pressed": "false", text: "One scale for all" });
  const note = make("p", { class: "soft note" });
  const box = make("div", {}, make("div", { class: "head" }, title, together), note, make("div", { class: "scroll" }, wall));
  const own = { key: "", cells: [], shown: null, common: false };
  const elements = { title, wall, note, together };
  together.addEventListener("click", () => {
    own.common = !own.common;
    own.shown = null;
    together.setAttribute("aria-pressed", String(own.common));
    change({ version: state.version + 1 });
  });
  return { box, refresh: (one) => refresh(own, elements, one) };
}

function refresh(own, elements, one) {
  const { look } = one;
  const grid = gridOf(one);
  const live = look.layers * look.heads * grid[0] * grid[1] <= LIVE;
  const query = (live ? chosenCell(one) : cellAt(one, state.pinned)) ?? nobody(one);
  const key = `${one.model.id}|${look.layers}|${look.heads}|${grid}`;
  if (key !== own.key) {
    own.key = key;
    own.shown = null;
    hang(own, elements.wall, one);
  }
  mark(own, one);
  follow(own, one, `layers?query=${query}`, (answer) => paint(own, elements, one, query, answer));
}

/** The longer way goes from left to right: twelve layers of three heads are twelve columns. */
const lies = ({ layers, heads }) => layers > heads;

function hang(own, wall, { look, model }) {
  const [across, down] = lies(look) ? [look.layers, look.heads] : [look.heads, look.layers];
  const names = Array.from({ length: across }, (_, i) => make("span", { class: "soft digits top", text: i }));
  wall.style.gridTemplateColumns = `auto repeat(${across}, minmax(${across > 8 ? 30 : 44}px, 1fr))`;
  wall.style.setProperty("--pane", String((model.grid[1] || 1) / (model.grid[0] || 1)));
  wall.style.maxWidth = `${Math.min(720, 40 + across * 96)}px`;
  wall.replaceChildren(make("span"), ...names);
  own.cells = [];
  for (let y = 0; y < down; y++) {
    wall.append(make("span", { class: "soft digits side", text: y }));
    for (let x = 0; x < across; x++) {
      const [layer, head] = lies(look) ? [x, y] : [y, x];
      const canvas = make("canvas", { width: 1, height: 1, "aria-hidden": "true" });
      const button = make("button", { type: "button", class: "pane", onclick: () => change({ layer, head, method: "attention" }) }, canvas);
      own.cells.push({ layer, head, canvas, button });
      wall.append(button);
    }
  }
}

function mark(own, one) {
  for (const { layer, head, button } of own.cells) {
    button.setAttribute("aria-pressed", String(layer === layerOf(one) && (headOf(one) === head || typeof headOf(one) !== "number")));
  }
}

function paint(own, { title, note }, one, query, answer) {
  const grid = gridOf(one);
  const top = Math.max(...answer.maps.flat().map((cells) => cells[largest(cells)]));
  title.textContent = query === "received" ? "What patches receive" : `What ${asker(query, grid)} attends to`;
  const axes = lies(one.look) ? "Columns are layers, rows heads, counted from 0" : "Rows are layers, columns heads, counted from 0";
  note.textContent = own.common ? `${axes}; all from 0 to ${percent(top)}.` : `${axes}; each map from 0 to its own largest share, or to twice an even one (at most ${percent(top)}).`;
  if (own.shown === answer) return;
  own.shown = answer;
  for (const { layer, head, canvas, button } of own.cells) {
    const cells = answer.maps[layer]?.[head];
    if (!cells || cells.length !== grid[0] * grid[1]) continue;
    const scale = scaleOfShares(cells);
    paintMap(canvas, cells, grid, own.common ? { ...scale, high: Math.max(top, scale.high) } : scale);
    const most = largest(cells);
    const words = `Layer ${layer}, head ${head}: ${isNearlyEven(scale) ? "nearly even, " : ""}most on ${place(most, grid)}, ${percent(cells[most])}`;
    button.setAttribute("aria-label", capital(words));
    button.title = words;
  }
}
