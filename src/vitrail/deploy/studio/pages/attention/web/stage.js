// The stage: an image under panes. Hovering or pinning a patch asks what it attends to; with a brush, panes are taken away.

import { make } from "/static/dom.js";
import { erasedPlaces, paint } from "./brush.js";
import { ask, forget, isStale, peek } from "./looks.js";
import { drawErased, drawGlass, drawLead, drawMark, drawCells, drawWords, edges } from "/static/pane.js";
import { prefetch } from "./prefetch.js";
import { complain, say } from "/static/said.js";
import { makeLegend } from "/static/legend.js";
import { cellAt, change, gridOf, pointOf, state, watch } from "./state.js";
import { wish } from "./shown.js";
import { percent } from "/static/words.js";

const CALM = matchMedia("(prefers-reduced-motion: reduce)");
const HINT = "Arrow keys move the chosen patch, Enter lets it go, e erases it, r restores it, question mark lists all keys.";

/** The stage of side `number`; it redraws itself whenever the state asks for another map. */
export function makeStage(number) {
  const canvas = make("canvas", { "aria-hidden": "true" });
  const glow = make("canvas", { class: "glow", "aria-hidden": "true", width: 1, height: 1 });
  const frame = make("div", {
    class: "window", tabindex: "0", role: "application", "aria-roledescription": "window of patches", "aria-label": "Image in patches",
    "aria-description": HINT,
  }, canvas);
  const title = make("p", { class: "whose" });
  const legend = makeLegend();
  const box = make("figure", { class: "stage", "data-side": number }, title, make("div", { class: "wall" }, glow, frame), legend.box);
  const own = { number, canvas, glow, frame, legend, title, box, map: null, values: null, base: null, baseKey: "" };

  const one = () => state.sides[number];
  const unwatch = watch(["version", "tab", "layer", "head", "method", "hovered", "pinned", "lensLayer", "colorLayer", "key", "glass", "reads", "sides", "bitmap"], () => {
    if (one()) refresh(own, one());
  });
  const sizes = new ResizeObserver(() => one() && paintStage(own, one()));
  sizes.observe(frame);
  own.leave = () => {
    unwatch();
    sizes.disconnect();
    cancelAnimationFrame(own.motion);
    own.rest = null;
    box.remove();
  };
  listen(own, one);
  return own;
}

/** Shows the wished map: at once if it is known, else when it comes and is still wished for. */
function refresh(own, one) {
  own.title.hidden = state.sides.length < 2;
  own.title.textContent = one.model.name;
  own.box.classList.toggle("active", state.sides.length > 1 && state.active === own.number);
  const wanted = wish(one);
  const known = wanted ? peek(one, wanted.rest) : null;
  own.box.setAttribute("aria-busy", String(Boolean(one.running || one.seeing || known === undefined)));
  if (!wanted) {
    own.rest = null;
    put(own, one, null);
    return;
  }
  own.rest = wanted.rest;
  if (known !== undefined) {
    put(own, one, wanted.map(known));
    prefetch(one);
    return;
  }
  paintStage(own, one);
  forget(one, wanted.rest);
  ask(one, wanted.rest, { spare: true }).then(
    () => own.rest === wanted.rest && refresh(own, one),
    (error) => {
      if (isStale(error) || own.rest !== wanted.rest) return;
      own.box.setAttribute("aria-busy", "false");
      put(own, one, null);
      complain(error);
    },
  );
}

/** Takes a map over, fading from the numbers shown before. */
function put(own, one, map) {
  const cells = map?.cells;
  if (cells && cells.length !== gridOf(one)[0] * gridOf(one)[1]) map = null; // a layer with another grid has no place here
  const from = own.values?.length === cells?.length && own.map?.format === map?.format ? own.values : null;
  own.map = map;
  own.legend.show(one, map, number(one));
  if (own.number === state.active && map) {
    const [best] = one.look.predictions;
    say(one.touched && best ? `Says ${best.label}, ${percent(best.score)}. ${map.words}` : map.words);
  }
  cancelAnimationFrame(own.motion);
  if (!map) own.values = null;
  else if (!from || CALM.matches || map.colors || map.labels) own.values = Float64Array.from(cells);
  else {
    const [start, before, after] = [performance.now(), Float64Array.from(from), cells];
    const step = (now) => {
      const t = Math.min(1, (now - start) / 110);
      own.values = Float64Array.from(after, (value, i) => before[i] + (value - before[i]) * t * (2 - t));
      paintStage(own, one);
      if (t < 1) own.motion = requestAnimationFrame(step);
    };
    own.motion = requestAnimationFrame(step);
    return;
  }
  paintStage(own, one);
}

const number = (one) => cellAt(one, state.hovered);

function paintStage(own, one) {
  const { look } = one;
  if (!look || !state.bitmap) return;
  look.image ??= [state.image.width, state.image.height];
  const aspect = (look.box[2] - look.box[0]) / (look.box[3] - look.box[1]) || 1;
  own.frame.style.aspectRatio = String(aspect);
  own.frame.style.setProperty("--aspect", String(aspect));
  const { clientWidth: width, clientHeight: height } = own.frame;
  if (width < 2 || height < 2) return;
  const ratio = Math.min(3, devicePixelRatio || 1);
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (own.canvas.width !== w || own.canvas.height !== h) Object.assign(own.canvas, { width: w, height: h });
  const dull = Boolean(own.map) && !own.map.colors;
  const key = [look.id, w, h, state.reads, dull, Boolean(one.seen), state.image.id, one.order?.join()].join("|");
  if (key !== own.baseKey) {
    own.base = drawCells({ one, image: state.bitmap, reads: state.reads, width, height, ratio, dull });
    own.baseKey = key;
    drawInset(own.legend.inset, { one, image: state.bitmap, reads: state.reads, width: 132, height: Math.round(132 / aspect), ratio: 1, dull: false });
  }
  const [rows, columns] = look.grid;
  const [xs, ys] = [edges(columns, width, ratio), edges(rows, height, ratio)];
  const context = own.canvas.getContext("2d");
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.drawImage(own.base, 0, 0);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  drawErased(context, { erased: erasedPlaces(one), seen: fits(one) ? one.seen : null, xs, ys });
  if (own.map && own.values) drawGlass(context, { map: own.map, values: own.values, xs, ys, glass: own.map.opaque ? Math.max(state.glass, 0.9) : state.glass });
  drawLead(context, xs, ys);
  if (own.map && own.values) drawWords(context, { map: own.map, values: own.values, xs, ys });
  const [hovered, pinned] = [cellAt(one, state.hovered), cellAt(one, state.pinned)];
  if (pinned !== null) drawMark(context, pinned, xs, ys, { wide: 3, color: "#7fd4ff" });
  if (hovered !== null && hovered !== pinned) drawMark(context, hovered, xs, ys);
  if (state.key !== null && own.number === state.active && state.key < rows * columns) drawMark(context, state.key, xs, ys, { color: "#ffd98a" });
  const light = own.glow.getContext("2d");
  Object.assign(own.glow, { width: 24, height: 24 });
  light.drawImage(own.canvas, 0, 0, 24, 24);
}

/** The image without glass, small, beside the legend. */
function drawInset(canvas, options) {
  const drawn = drawCells(options);
  Object.assign(canvas, { width: drawn.width, height: drawn.height });
  canvas.getContext("2d").drawImage(drawn, 0, 0);
}

/** The kept image of what the model reads is of this very erasing. */
const fits = (one) => one.seen && one.seenFor.erased.length === one.erased.size && one.seenFor.erased.every((cell) => one.erased.has(cell));

function listen(own, one) {
  const { frame } = own;
  const at = (event) => {
    const bounds = own.canvas.getBoundingClientRect();
    const inside = (value) => Math.min(0.99999, Math.max(0, value));
    return { u: inside((event.clientX - bounds.left) / bounds.width), v: inside((event.clientY - bounds.top) / bounds.height) };
  };
  const hover = (point) => {
    const cell = cellAt(one(), point);
    if (cell !== cellAt(one(), state.hovered)) change({ hovered: pointOf(one(), cell) });
  };
  let stroke = null;
  frame.addEventListener("pointermove", (event) => {
    if (!one()?.look) return;
    const point = at(event);
    if (stroke !== null) stroke = paint(one(), stroke, cellAt(one(), point));
    else if (event.pointerType !== "touch") hover(point);
  });
  frame.addEventListener("pointerleave", () => change({ hovered: null }));
  frame.addEventListener("pointerdown", (event) => {
    if (!one()?.look || event.button !== 0) return;
    change({ active: own.number });
    if (state.tool === "look") return;
    frame.setPointerCapture(event.pointerId);
    stroke = paint(one(), null, cellAt(one(), at(event)));
    change({ hovered: null });
  });
  for (const name of ["pointerup", "pointercancel"]) frame.addEventListener(name, () => (stroke = null));
  frame.addEventListener("click", (event) => {
    if (state.tool !== "look" || !one()?.look) return;
    const cell = cellAt(one(), at(event));
    change({ pinned: cell === cellAt(one(), state.pinned) ? null : pointOf(one(), cell), hovered: null, key: null });
  });
}
