// The keyboard: everything the pointer can do.

import { reset, shuffle, touch } from "./brush.js";
import { toggleCompare } from "./compare.js";
import { find, make } from "/static/dom.js";
import { toggleRuns } from "/static/runs.js";
import { cellAt, change, gridOf, headOf, layerOf, pointOf, side, state } from "./state.js";
import { leaveTour, toggleTour, touring } from "./tour.js";

const LIST = [
  ["← ↑ → ↓", "move the chosen patch"], ["Enter", "choose a patch, or let it go"], ["[  ]", "layer down, up"], [",  .", "head before, next"],
  ["e", "erase the chosen patch, or take the brush"], ["r", "restore it"], ["s", "shuffle the patches"], ["0", "the image as it was"],
  ["1 … 7", "the views"], ["c", "compare two models"], ["v", "as the model reads it, or as it is"], ["t", "guided tour"], ["u", "training runs"], ["?", "these keys"], ["Esc", "leave"],
];

const KEY = "vitrail-keys";
let everywhere = true; // or with the focus on the image alone, for those whose fingers or voice press letters unasked

function makeSwitch() {
  const box = make("input", { type: "checkbox", id: "everywhere" });
  try {
    everywhere = localStorage.getItem(KEY) !== "image";
  } catch {
    // a browser may forbid it: then the choice lasts as long as the page
  }
  box.checked = everywhere;
  box.addEventListener("change", () => {
    everywhere = box.checked;
    try {
      localStorage.setItem(KEY, everywhere ? "everywhere" : "image");
    } catch {
      // see above
    }
  });
  return make("label", { class: "switch" }, box, "Letters, digits and signs act everywhere, not only with the focus on the image");
}

export function makeKeys() {
  const help = find("#help");
  help.append(
    make("h2", { id: "help-title", text: "Keys" }),
    make("dl", {}, ...LIST.map(([key, words]) => make("div", {}, make("dt", {}, ...key.split("  ").map((one) => make("kbd", { text: one }))), make("dd", { text: words })))),
    makeSwitch(),
    make("button", { type: "button", class: "chief", text: "Close", onclick: () => help.close() }));
  help.addEventListener("click", (event) => event.target === help && help.close());
  find("#keys").addEventListener("click", () => help.showModal());
  addEventListener("keydown", pressed);
}

/** A layer or head further; the heads stand in the order of their buttons: mean, max, min, 0, 1, … */
function moveLayer(by) {
  const one = side();
  change({ layer: Math.max(0, Math.min(one.look.layers - 1, layerOf(one) + by)), method: "attention" });
}

function moveHead(by) {
  const one = side();
  const order = ["mean", "max", "min", ...Array.from({ length: one.look.heads }, (_, i) => i)];
  change({ head: order[(order.indexOf(headOf(one)) + by + order.length) % order.length], method: "attention" });
}

function movePatch(down, right) {
  const one = side();
  const [rows, columns] = gridOf(one);
  const cell = cellAt(one, state.pinned);
  const [row, column] = cell === null ? [Math.floor(rows / 2), Math.floor(columns / 2)] : [Math.floor(cell / columns) + down, (cell % columns) + right];
  const within = (value, size) => Math.min(size - 1, Math.max(0, value));
  change({ pinned: pointOf(one, within(row, rows) * columns + within(column, columns)), hovered: null, key: null });
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || find("#help").open) return;
  const target = event.target;
  const typing = target.matches?.("input, select, textarea");
  if (event.key === "Escape") {
    if (touring()) leaveTour();
    else change({ pinned: null, tool: "look", key: null });
    return;
  }
  if (typing && (target.type !== "range" || event.key.startsWith("Arrow") || event.key.startsWith("Page"))) return;
  const one = side();
  const seen = one?.look && !document.body.classList.contains("at-runs");
  const onStage = target === document.body || target.closest?.(".window, #stages");
  const arrows = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  if (event.key in arrows) {
    if (!seen || !onStage) return;
    movePatch(...arrows[event.key]);
  } else if (event.key === "Enter" || event.key === " ") {
    if (!seen || !target.closest?.(".window")) return;
    if (state.pinned) change({ pinned: null });
    else movePatch(0, 0);
  } else {
    const act = ACTS[event.key] ?? (/^[1-7]$/.test(event.key) ? () => document.querySelectorAll("#tabs [role=tab]")[event.key - 1].click() : null);
    if (!act || !(everywhere || target.closest?.(".window")) || (!seen && !["t", "u", "?"].includes(event.key))) return;
    act();
  }
  event.preventDefault();
}

const ACTS = {
  "[": () => moveLayer(-1), "]": () => moveLayer(1), ",": () => moveHead(-1), ".": () => moveHead(1),
  e: () => touch("erase"), r: () => touch("unerase"), s: shuffle, 0: reset,
  c: toggleCompare, v: () => change({ reads: !state.reads }), t: toggleTour, u: toggleRuns, "?": () => find("#help").showModal(),
};
