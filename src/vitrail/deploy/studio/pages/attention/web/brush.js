// The brush: take patches away, give them back, shuffle them, and see what the model says then.

import { choice, find, make } from "/static/dom.js";
import { run, runAll } from "./looks.js";
import { announce } from "/static/said.js";
import { cellAt, change, gridOf, side, state, watch } from "./state.js";
import { count, place } from "/static/words.js";

/** Paints from the cell `from` (null: a new stroke) to the cell `to`, every cell between them; returns `to`. */
export function paint(one, from, to, tool = state.tool) {
  if (from === to) return to;
  const columns = gridOf(one)[1];
  const [a, b] = [from ?? to, to].map((cell) => [Math.floor(cell / columns), cell % columns]);
  const steps = Math.max(1, Math.abs(a[0] - b[0]), Math.abs(a[1] - b[1]));
  for (let i = 0; i <= steps; i++) {
    const [row, column] = [0, 1].map((k) => Math.round(a[k] + ((b[k] - a[k]) * i) / steps));
    const cell = cellIn(one, row * columns + column);
    if (tool === "erase") one.erased.add(cell);
    else one.erased.delete(cell);
  }
  for (const other of state.sides) {
    if (other !== one && other.look) other.erased = new Set([...carry(erasedPlaces(one), gridOf(one), gridOf(other))].map((place) => cellIn(other, place)));
    run(other);
  }
  return to;
}

/** Which patch of the image stands at a place: another one after shuffling. */
const cellIn = (one, place) => (one.order ? one.order[place] : place);

/** Where the erased patches stand on the stage. */
export function erasedPlaces(one) {
  if (!one.order) return one.erased;
  return new Set(one.order.map((_, place) => place).filter((place) => one.erased.has(one.order[place])));
}

/** The places on another grid at least half of whose area is erased. */
export function carry(places, [rows, columns], [otherRows, otherColumns]) {
  const carried = new Set();
  for (let cell = 0; cell < otherRows * otherColumns; cell++) {
    const [row, column] = [Math.floor(cell / otherColumns), cell % otherColumns];
    const [top, bottom] = [(row * rows) / otherRows, ((row + 1) * rows) / otherRows];
    const [left, right] = [(column * columns) / otherColumns, ((column + 1) * columns) / otherColumns];
    let area = 0;
    for (const gone of places) {
      const [y, x] = [Math.floor(gone / columns), gone % columns];
      area += Math.max(0, Math.min(bottom, y + 1) - Math.max(top, y)) * Math.max(0, Math.min(right, x + 1) - Math.max(left, x));
    }
    if (area >= 0.5 * (bottom - top) * (right - left)) carried.add(cell);
  }
  return carried;
}

/** Erases or restores the pinned patch; without one, takes the brush up. */
export function touch(tool) {
  const one = side();
  const cell = cellAt(one, state.pinned);
  if (!one?.model.intervenes) return;
  if (cell === null) {
    change({ tool: state.tool === tool ? "look" : tool });
    return;
  }
  paint(one, null, cell, tool);
  announce(`${tool === "erase" ? "Erased" : "Restored"} ${place(cell, gridOf(one))}; ${count(one.erased.size, "patch", "patches")} erased.`);
}

/** Every patch to another place (each model on its own grid). */
export function shuffle() {
  for (const one of state.sides) {
    if (!one.model.intervenes || one.model.shuffles === false || !one.look) continue;
    const order = Array.from({ length: gridOf(one)[0] * gridOf(one)[1] }, (_, i) => i);
    for (let i = order.length - 1; i > 0; i--) {
      const j = Math.floor(Math.random() * (i + 1));
      [order[i], order[j]] = [order[j], order[i]];
    }
    one.order = order;
  }
  announce("Patches shuffled.");
  return runAll();
}

export function reset() {
  for (const one of state.sides) Object.assign(one, { erased: new Set(), order: null });
  announce("Image as it was.");
  return runAll();
}

export function makeTools() {
  const tools = choice("Tool", [["look", "Look", "See what a patch attends to"], ["erase", "Erase", "Paint patches away (e)"], ["unerase", "Restore", "Paint patches back (r)"]], state.tool, (tool) => change({ tool }));
  const mix = make("button", { type: "button", text: "Shuffle", title: "Every patch to another place (s)", id: "shuffle", onclick: shuffle });
  const back = make("button", { type: "button", text: "Reset", title: "The image as it was (0)", id: "reset", onclick: reset });
  const reads = make("button", { type: "button", class: "quiet", text: "As the model reads it", "aria-pressed": "false", id: "reads", onclick: () => change({ reads: !state.reads }) });
  find("#tools").append(tools.box, mix, back, reads);
  watch(["tool", "version", "reads", "sides"], () => {
    const one = side();
    tools.press(state.tool);
    document.body.dataset.tool = state.tool;
    const able = Boolean(one?.model.intervenes && one.look);
    for (const [value, button] of tools.buttons) button.disabled = value !== "look" && !able;
    mix.disabled = !able || one.model.shuffles === false;
    back.disabled = !state.sides.some(({ erased, order }) => erased.size || order);
    reads.setAttribute("aria-pressed", String(state.reads));
  });
}
