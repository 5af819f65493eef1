// Drawing of the window: the image cut into panes, glass over them, lead between them. Pure functions of a canvas context.

import { colorAt, css } from "./scales.js";
import { percent } from "./words.js";

const SMALLEST_TEXT = 9; // pixels

/** Edges of the cells along one side, on whole device pixels. */
export function edges(count, length, ratio) {
  return Array.from({ length: count + 1 }, (_, i) => Math.round((i * length * ratio) / count) / ratio);
}

/** The image as the stage shows it, cell by cell where the brush has been. Returns a canvas to copy from. */
export function drawCells({ one, image, reads, width, height, ratio, dull }) {
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  if (dull) context.filter = "saturate(0.45)";
  const { look, seen } = one;
  if (reads && seen) {
    context.imageSmoothingEnabled = seen.width > 96;
    context.drawImage(seen, 0, 0, width, height);
    return canvas;
  }
  if (!image) return canvas;
  const [scaleX, scaleY] = [image.width / look.image[0], image.height / look.image[1]];
  const box = [look.box[0] * scaleX, look.box[1] * scaleY, (look.box[2] - look.box[0]) * scaleX, (look.box[3] - look.box[1]) * scaleY];
  context.imageSmoothingEnabled = Math.max(box[2], box[3]) > 96;
  context.imageSmoothingQuality = "high";
  if (!one.order) {
    context.drawImage(image, ...box, 0, 0, width, height);
    return canvas;
  }
  const [rows, columns] = look.grid;
  const [xs, ys] = [edges(columns, width, ratio), edges(rows, height, ratio)];
  const [w, h] = [box[2] / columns, box[3] / rows];
  one.order.forEach((from, to) => {
    const [row, column] = [Math.floor(to / columns), to % columns];
    const at = [box[0] + (from % columns) * w, box[1] + Math.floor(from / columns) * h];
    context.drawImage(image, ...at, w, h, xs[column], ys[row], xs[column + 1] - xs[column], ys[row + 1] - ys[row]);
  });
  return canvas;
}

/** Colored glass over each pane: `values` are numbers on the map's scale, or the map brings colors itself. */
export function drawGlass(context, { map, values, xs, ys, glass }) {
  const columns = xs.length - 1;
  const more = 0.6 * (1 / Math.max(glass, 0.5) - 1); // bright glass is denser: over a black patch it must still be the brightest
  for (let cell = 0; cell < values.length; cell++) {
    const [row, column] = [Math.floor(cell / columns), cell % columns];
    const value = map.scale?.flat ?? values[cell];
    const t = map.scale ? (value - map.scale.low) / (map.scale.high - map.scale.low) : 0;
    context.globalAlpha = Math.min(1, glass * (1 + more * Math.min(1, Math.max(0, t))));
    context.fillStyle = css(map.colors ? map.colors[cell] : colorAt(map.scale, values[cell]));
    context.fillRect(xs[column], ys[row], xs[column + 1] - xs[column], ys[row + 1] - ys[row]);
  }
  context.globalAlpha = 1;
}

/** What the brush took away: the color that the model reads there, hatched, so that it is not taken for image. */
export function drawErased(context, { erased, seen, xs, ys }) {
  const columns = xs.length - 1;
  const rows = ys.length - 1;
  for (const cell of erased) {
    const [row, column] = [Math.floor(cell / columns), cell % columns];
    const [x, y] = [xs[column], ys[row]];
    const [w, h] = [xs[column + 1] - x, ys[row + 1] - y];
    context.save();
    context.beginPath();
    context.rect(x, y, w, h);
    context.clip();
    if (seen) context.drawImage(seen, (column * seen.width) / columns, (row * seen.height) / rows, seen.width / columns, seen.height / rows, x, y, w, h);
    else {
      context.fillStyle = "#7d7f82";
      context.fillRect(x, y, w, h);
    }
    context.strokeStyle = "rgb(255 255 255 / 0.55)";
    context.lineWidth = 1;
    context.beginPath();
    const gap = Math.max(5, Math.min(w, h) / 5);
    for (let at = -h; at < w; at += gap) {
      context.moveTo(x + at, y + h);
      context.lineTo(x + at + h, y);
    }
    context.stroke();
    context.restore();
  }
}

/** Lead between the panes: thin, and thinner the more panes there are. */
export function drawLead(context, xs, ys) {
  const pane = Math.min(xs[1] - xs[0], ys[1] - ys[0]);
  context.strokeStyle = "#0b0d11";
  context.lineWidth = Math.max(0.6, Math.min(2, pane / 26));
  context.globalAlpha = pane < 14 ? 0.55 : 0.9;
  context.beginPath();
  for (const x of xs.slice(1, -1)) {
    context.moveTo(x, 0);
    context.lineTo(x, ys.at(-1));
  }
  for (const y of ys.slice(1, -1)) {
    context.moveTo(0, y);
    context.lineTo(xs.at(-1), y);
  }
  context.stroke();
  if (pane >= 14) {
    context.strokeStyle = "#8b97a8"; // the light on the lead, which parts black panes too
    context.lineWidth = 0.7;
    context.globalAlpha = 0.4;
    context.stroke();
  }
  context.globalAlpha = 1;
}

/** An outline around a pane: a light line on a dark one, seen on any glass. */
export function drawMark(context, cell, xs, ys, { color = "#ffffff", wide = 2 } = {}) {
  const columns = xs.length - 1;
  const [row, column] = [Math.floor(cell / columns), cell % columns];
  const [x, y, w, h] = [xs[column], ys[row], xs[column + 1] - xs[column], ys[row + 1] - ys[row]];
  for (const [style, width] of [["rgb(5 7 10 / 0.9)", wide + 2], [color, wide]]) {
    context.strokeStyle = style;
    context.lineWidth = width;
    context.strokeRect(x, y, w, h);
  }
}

/** Words on the panes that have room: labels of a lens, or the largest numbers of a map. */
export function drawWords(context, { map, values, xs, ys }) {
  const columns = xs.length - 1;
  const pane = Math.min(xs[1] - xs[0], ys[1] - ys[0]);
  if (pane < 30 || map.colors) return;
  context.font = `600 ${Math.max(SMALLEST_TEXT, Math.round(Math.min(15, pane / 3.6)))}px system-ui, sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  const write = (cell, words, shorter = words) => {
    const [row, column] = [Math.floor(cell / columns), cell % columns];
    const [x, y] = [(xs[column] + xs[column + 1]) / 2, (ys[row] + ys[row + 1]) / 2];
    const room = xs[column + 1] - xs[column] - 6;
    if (context.measureText(words).width > room) words = shorter;
    while (words.length > 2 && context.measureText(words).width > room) words = words.endsWith("…") ? `${words.slice(0, -2)}…` : `${words.slice(0, -1)}…`;
    context.strokeStyle = "rgb(8 10 14 / 0.75)";
    context.lineWidth = 3;
    context.lineJoin = "round";
    context.strokeText(words, x, y);
    context.fillStyle = "#ffffff";
    context.fillText(words, x, y);
  };
  if (map.labels) map.labels.forEach((label, cell) => write(cell, label.slice(0, 24))); // all of them, if shortened: none may stand out for being short
  else if (map.format === percent) {
    const order = Array.from(values.keys()).sort((a, b) => values[b] - values[a]);
    for (const cell of order.slice(0, 3)) if (map.even === null || values[cell] > 1.5 * map.even) write(cell, percent(values[cell]), `${Math.round(100 * values[cell])} %`);
  }
}
