// The pixels of one patch, enlarged.

import { make } from "/static/dom.js";
import { change } from "./state.js";

/** A canvas with the patch `cell` as the model reads it; empty until that is known. */
export function crop(one, cell, size = 28) {
  const canvas = make("canvas", { class: "crop", width: 2 * size, height: 2 * size, "aria-hidden": "true" });
  canvas.style.width = canvas.style.height = `${size}px`;
  const { look, seen } = one;
  if (!seen || !look) return canvas;
  const [rows, columns] = look.grid;
  const [w, h] = [seen.width / columns, seen.height / rows];
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(seen, (cell % columns) * w, Math.floor(cell / columns) * h, w, h, 0, 0, 2 * size, 2 * size);
  return canvas;
}

/** How a token is shown in a table: the patch it stands on (null: none) and its name. */
export function tokenBadge(one, cell, name) {
  const image = cell === null ? make("span", { class: "crop prefix", text: name === "class" ? "cls" : "reg" }) : crop(one, cell, 24);
  return make("span", { class: "badge" }, image, make("span", { text: name }));
}

/** Pointing at a row, or reaching it with the keyboard, marks its patch on the stage. */
export function marking(row, cell) {
  row.tabIndex = 0;
  for (const name of ["pointerenter", "focus"]) row.addEventListener(name, () => change({ key: cell }));
  for (const name of ["pointerleave", "blur"]) row.addEventListener(name, () => change({ key: null }));
  return row;
}
