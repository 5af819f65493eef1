// An image in its window, and over it, as colored glass, what something reads of it. Whatever else lies on the image stands in `over`.

import { make } from "./dom.js";
import { makeLegend } from "./legend.js";
import { drawGlass, drawLead, edges } from "./pane.js";
import { isNearlyEven, scaleOfShares } from "./scales.js";
import { largest, percent, place } from "./words.js";

const SMALL = 96; // pixels a side up to which they are to be seen
const GLASS = 0.6;

/** `show(image, {width, height})` hangs an image of that size; `light(map)` lays a map {cells, grid, covers, title, where} over it, or
 * takes it away (null). A map covers `covers` times the image's height and width, where the model read it padded. */
export function makeLight(box, label) {
  const own = { image: null, map: null, hovered: null };
  const canvas = make("canvas", { role: "img", "aria-label": label });
  const over = make("div", { class: "over" });
  const frame = make("div", { class: "window" }, canvas, over);
  const legend = makeLegend();
  legend.inset.remove();
  box.replaceChildren(make("figure", { class: "lit" }, make("div", { class: "wall" }, frame), legend.box));
  new ResizeObserver(draw).observe(frame);
  frame.addEventListener("pointermove", (event) => hover(cellAt(event)));
  frame.addEventListener("pointerleave", () => hover(null));

  /** The place under the pointer in shares of the image's sides, row first. */
  function at(event) {
    const bounds = canvas.getBoundingClientRect();
    const within = (value) => Math.min(1 - 1e-9, Math.max(0, value));
    return [within((event.clientY - bounds.top) / bounds.height), within((event.clientX - bounds.left) / bounds.width)];
  }

  function cellAt(event) {
    if (!own.map) return null;
    const { grid, covers } = own.map;
    const [row, column] = at(event).map((share, axis) => Math.floor((share / covers[axis]) * grid[axis]));
    return row * grid[1] + column;
  }

  function hover(cell) {
    if (cell === own.hovered) return;
    own.hovered = cell;
    tell();
  }

  function tell() {
    legend.box.hidden = own.map === null;
    if (own.map) legend.show({ look: { grid: own.map.grid } }, own.map, own.hovered);
  }

  function draw() {
    const ratio = devicePixelRatio || 1;
    const [width, height] = [frame.clientWidth, frame.clientHeight];
    if (!own.image || !width || !height) return;
    Object.assign(canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.imageSmoothingEnabled = Math.max(own.image.naturalWidth, own.image.naturalHeight) > SMALL;
    context.imageSmoothingQuality = "high";
    if (own.map) context.filter = "saturate(0.45)";
    context.drawImage(own.image, 0, 0, width, height);
    context.filter = "none";
    if (!own.map) return;
    const { grid, covers, cells } = own.map;
    const [ys, xs] = [edges(grid[0], height * covers[0], ratio), edges(grid[1], width * covers[1], ratio)];
    drawGlass(context, { map: own.map, values: cells, xs, ys, glass: GLASS });
    drawLead(context, xs, ys);
  }

  return {
    frame,
    over,
    at,
    show(image, { width, height }) {
      Object.assign(own, { image, map: null, hovered: null });
      frame.style.aspectRatio = `${width} / ${height}`;
      frame.style.setProperty("--aspect", String(width / height));
      canvas.setAttribute("aria-label", label);
      draw();
      tell();
    },
    light(map) {
      const describe = (cell) => `${place(cell, map.grid)}: ${percent(map.cells[cell])}`;
      own.map = map && { ...map, scale: scaleOfShares(map.cells), format: percent, even: 1 / map.cells.length, top: largest(map.cells), tell: describe };
      own.hovered = null;
      canvas.setAttribute("aria-label", map ? `${label}. ${map.title}, ${map.where}${isNearlyEven(own.map.scale) ? ", nearly even" : ""}` : label);
      draw();
      tell();
    },
  };
}
