// The pixels of one patch, enlarged.

import { make } from "./dom.js";
import { state } from "./state.js";

/** A canvas with the patch `cell` as it is on the stage now. */
export function crop(one, cell, size = 28) {
  const canvas = make("canvas", { class: "crop", width: 2 * size, height: 2 * size, "aria-hidden": "true" });
  canvas.style.width = canvas.style.height = `${size}px`;
  const { look, seen } = one;
  const source = seen ?? state.image;
  if (!source || !look) return canvas;
  const [rows, columns] = look.grid;
  const box = seen ? [0, 0, seen.width, seen.height] : [0, 0, source.width, source.height];
  const [w, h] = [box[2] / columns, box[3] / rows];
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(source, (cell % columns) * w, Math.floor(cell / columns) * h, w, h, 0, 0, 2 * size, 2 * size);
  return canvas;
}

/** How a token is shown in a table: its patch and its name. */
export function tokenBadge(one, token, name) {
  const prefix = one.look.prefix ?? 0;
  const picture = token < prefix ? make("span", { class: "crop prefix", text: "cls" }) : crop(one, token - prefix, 24);
  return make("span", { class: "badge" }, picture, make("span", { text: name }));
}
