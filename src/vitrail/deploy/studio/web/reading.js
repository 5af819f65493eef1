// What something reads in every layer and head: walls of small maps, of which one is chosen and handed on.

import { choice, make } from "./dom.js";
import { isNearlyEven, paintMap, scaleOfShares } from "./scales.js";
import { capital, headName, largest, percent, place } from "./words.js";

const MOST_ACROSS = 8; // heads in a row, beyond which the panes are smaller

/** `react(map)` receives the chosen map as `light` takes it. Walls are {name, title, covers, layers: [{grid, heads: [cells]}]}; `called` has
 * the words for the layers of a wall by its name. */
export function makeReading(box, { called, react }) {
  const own = { walls: [], name: null, layer: {}, head: "mean", panes: [] };

  const wall = () => own.walls.find(({ name }) => name === own.name) ?? own.walls[0];
  const mostHeads = ({ layers }) => Math.max(...layers.map(({ heads }) => heads.length));
  const layerOf = ({ name, layers }) => Math.min(own.layer[name] ?? layers.length - 1, layers.length - 1);

  /** One head's shares, or the mean of all; also where a layer has fewer heads than others. */
  const cellsOf = ({ heads }, head) => (head === "mean" || head >= heads.length ? heads[0].map((_, cell) => heads.reduce((sum, cells) => sum + cells[cell], 0) / heads.length) : heads[head]);

  function choose(changes) {
    Object.assign(own, changes);
    refresh();
  }

  function refresh() {
    const shown = wall();
    const layer = layerOf(shown);
    const { grid } = shown.layers[layer];
    own.parts?.press(shown.name);
    own.layers.press(layer);
    own.heads.press(own.head);
    for (const { button, ...pane } of own.panes) button.setAttribute("aria-pressed", String(pane.layer === layer && pane.head === own.head));
    react({ cells: cellsOf(shown.layers[layer], own.head), grid, covers: shown.covers, title: shown.title, where: `${own.walls.length > 1 ? `${shown.name} ` : ""}${called[shown.name]} ${layer}, ${headName(own.head < shown.layers[layer].heads.length ? own.head : "mean")}` });
  }

  /** Every layer a row, every head a column, and before them their mean. */
  function hang(shown) {
    const heads = mostHeads(shown);
    const columns = ["mean", ...Array.from({ length: heads }, (_, i) => i)];
    const box = make("div", { class: "head-wall" });
    box.style.gridTemplateColumns = `auto repeat(${columns.length}, minmax(${heads > MOST_ACROSS ? 30 : 44}px, 1fr))`;
    box.style.maxWidth = `${Math.min(720, 40 + columns.length * 96)}px`;
    box.append(make("span"), ...columns.map((head) => make("span", { class: "soft digits top", text: head })));
    own.panes = [];
    shown.layers.forEach((found, layer) => {
      box.append(make("span", { class: "soft digits side", text: layer }));
      for (const head of columns) {
        if (head >= found.heads.length) {
          box.append(make("span"));
          continue;
        }
        const cells = cellsOf(found, head);
        const canvas = make("canvas", { width: 1, height: 1, "aria-hidden": "true" });
        const scale = scaleOfShares(cells);
        paintMap(canvas, cells, found.grid, scale);
        const most = largest(cells);
        const words = `${capital(called[shown.name])} ${layer}, ${headName(head)}: ${isNearlyEven(scale) ? "nearly even, " : ""}most on ${place(most, found.grid)}, ${percent(cells[most])}`;
        const button = make("button", { type: "button", class: "pane", title: words, "aria-label": words, onclick: () => choose({ layer: { ...own.layer, [shown.name]: layer }, head }) }, canvas);
        button.style.setProperty("--pane", String(found.grid[1] / found.grid[0]));
        own.panes.push({ layer, head, button });
        box.append(button);
      }
    });
    return box;
  }

  function furnish() {
    const shown = wall();
    const heads = mostHeads(shown);
    const several = own.walls.length > 1;
    own.parts = several ? choice("Part", own.walls.map(({ name, title }) => [name, capital(name), title]), shown.name, (name) => {
      own.name = name;
      furnish();
    }) : null;
    own.layers = choice(capital(called[shown.name]), shown.layers.map((_, i) => [i, String(i)]), layerOf(shown), (layer) => choose({ layer: { ...own.layer, [shown.name]: layer } }));
    own.heads = choice("Head", [["mean", "mean", "Mean over heads"], ...Array.from({ length: heads }, (_, i) => [i, String(i), `Head ${i}`])], own.head, (head) => choose({ head }), "heads");
    const field = (words, { box }) => make("div", { class: "field" }, make("span", { text: words }), box);
    box.replaceChildren(
      make("h2", { text: shown.title }),
      make("div", { class: "controls" }, several ? field("Part", own.parts) : null, field(capital(called[shown.name]), own.layers), field("Head", own.heads)),
      make("p", { class: "soft note", text: `Rows are ${called[shown.name]}s, columns heads, counted from 0; each map from 0 to its own largest share, or to twice an even one.` }),
      make("div", { class: "scroll" }, hang(shown)));
    refresh();
  }

  return {
    show(walls) {
      own.walls = walls;
      if (own.head >= Math.max(...walls.map(mostHeads))) own.head = "mean";
      furnish();
    },
  };
}
