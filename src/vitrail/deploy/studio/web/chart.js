// Line charts by hand in SVG: few ticks, names at the ends of the lines, a cursor that can be moved.

import { draw } from "./dom.js";
import { LINES } from "./scales.js";

const LEFT = 46;
const TOP = 12;
const BOTTOM = 34;

/** About `wanted` round numbers from low to high. */
export function ticks(low, high, wanted = 4) {
  const raw = (high - low) / Math.max(1, wanted) || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= raw * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/**
 * series: [{name, points: [[x, y], ...], color?, dashed?}]; x and y: {low, high, format, label?, ticks?}.
 * `cursor`: an x to mark; `pick(x)`: called with the nearest x of the first series when the chart is pressed.
 */
export function lineChart({ width, height, series, x, y, label, cursor = null, pick, right = 86 }) {
  const [w, h] = [width - LEFT - right, height - TOP - BOTTOM];
  const atX = (value) => LEFT + (x.high === x.low ? 0.5 : (value - x.low) / (x.high - x.low)) * w;
  const atY = (value) => TOP + h - ((value - y.low) / (y.high - y.low || 1)) * h;
  const root = draw("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
  for (const value of y.ticks ?? ticks(y.low, y.high)) {
    root.append(
      draw("line", { class: "rule", x1: LEFT, x2: LEFT + w, y1: atY(value), y2: atY(value) }),
      draw("text", { class: "tick", x: LEFT - 8, y: atY(value) + 4, "text-anchor": "end", text: y.format(value) }),
    );
  }
  for (const value of x.ticks ?? ticks(x.low, x.high).filter(Number.isInteger)) {
    root.append(draw("text", { class: "tick", x: atX(value), y: TOP + h + 18, "text-anchor": "middle", text: x.format ? x.format(value) : value }));
  }
  if (x.label) root.append(draw("text", { class: "tick", x: LEFT + w / 2, y: height - 2, "text-anchor": "middle", text: x.label }));
  if (cursor !== null) root.append(draw("line", { class: "cursor", x1: atX(cursor), x2: atX(cursor), y1: TOP - 4, y2: TOP + h }));
  const ends = [];
  series.forEach(({ name, points, color, dashed }, i) => {
    const seen = points.filter(([, value]) => Number.isFinite(value));
    if (!seen.length) return;
    const stroke = color ?? LINES[i % LINES.length];
    const path = seen.map(([a, b], k) => `${k ? "L" : "M"}${atX(a).toFixed(1)} ${atY(b).toFixed(1)}`).join("");
    root.append(draw("path", { class: "line", d: path, stroke, "stroke-dasharray": dashed ? "4 4" : null }));
    if (seen.length < 40) for (const [a, b] of seen) root.append(draw("circle", { cx: atX(a), cy: atY(b), r: a === cursor ? 4 : seen.length === 1 ? 3 : 2.2, fill: stroke }));
    if (name) ends.push({ name, stroke, y: atY(seen.at(-1)[1]) });
  });
  root.append(...endNames(ends, LEFT + w + 9, TOP + h));
  if (pick) listen(root, series[0].points.map(([a]) => a), atX, pick);
  return root;
}

/** Names at the ends of the lines, moved apart where they would lie on each other. */
function endNames(ends, x, bottom) {
  ends.sort((a, b) => a.y - b.y);
  ends.forEach((end, i) => (end.y = i ? Math.max(end.y, ends[i - 1].y + 14) : end.y));
  for (let i = ends.length - 1, limit = bottom + 4; i >= 0; i--, limit -= 14) ends[i].y = Math.min(ends[i].y, limit);
  return ends.map(({ name, stroke, y }) => draw("text", { class: "end", x, y: y + 4, fill: stroke, text: name.length > 12 ? `${name.slice(0, 11)}…` : name }));
}

function listen(root, places, atX, pick) {
  root.classList.add("pickable");
  const choose = (event) => {
    const at = ((event.clientX - root.getBoundingClientRect().left) / root.getBoundingClientRect().width) * root.viewBox.baseVal.width;
    pick(places.reduce((best, value) => (Math.abs(atX(value) - at) < Math.abs(atX(best) - at) ? value : best), places[0]));
  };
  root.addEventListener("pointerdown", choose);
  root.addEventListener("pointermove", (event) => event.buttons && choose(event));
}
