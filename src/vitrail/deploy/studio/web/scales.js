// Color scales: lightness rises evenly in OKLab from night blue over ruby to candle light, so that color-blind eyes tell them apart.

/** sRGB "#rrggbb" -> OKLab  [Ottosson 2020]. */
function toLab(hex) {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const c = parseInt(hex.slice(at, at + 2), 16) / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function fromLab([L, a, b]) {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((c) => {
    const gamma = c <= 0.0031308 ? 12.92 * c : 1.055 * Math.max(c, 0) ** (1 / 2.4) - 0.055;
    return Math.round(255 * Math.min(1, Math.max(0, gamma)));
  });
}

/** 256 colors through `stops`, with the lightness given by `light(t)`. */
function table(stops, light) {
  const labs = stops.map(toLab);
  return Array.from({ length: 256 }, (_, i) => {
    const t = i / 255;
    const at = Math.min(labs.length - 2, Math.floor(t * (labs.length - 1)));
    const rest = t * (labs.length - 1) - at;
    const [, a, b] = labs[at].map((value, k) => value * (1 - rest) + labs[at + 1][k] * rest);
    return fromLab([light(t), a, b]);
  });
}

export const NIGHT_TO_LIGHT = table(["#0e1440", "#3a2c8f", "#7d3b9a", "#c1507f", "#e87f4f", "#f4b545", "#fff3c8"], (t) => 0.21 + 0.75 * t);
export const BELOW_ABOVE = table(
  ["#8fc0ff", "#3f7fd0", "#22406e", "#23262d", "#6e4215", "#d08a2a", "#ffd98a"],
  (t) => 0.27 + 0.63 * Math.abs(2 * t - 1),
);
/** Lines that are distinguished by the color-blind  [Okabe & Ito 2008], darkened or lightened to stand on both grounds. */
export const LINES = ["#3a7fd0", "#d97b1c", "#2f9a82", "#b0569b", "#8a8f3a", "#7a7f88"];

/** Scale of a map: from 0 (or its smallest, if `signed` then -largest) to its largest number. */
export function scaleOf(cells, { signed = false } = {}) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of cells) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (signed && low < 0) {
    const size = Math.max(Math.abs(low), Math.abs(high)) || 1;
    return { low: -size, high: size, colors: BELOW_ABOVE };
  }
  return { low: signed ? low : Math.min(0, low), high: high > Math.min(0, low) ? high : Math.min(0, low) + 1, colors: NIGHT_TO_LIGHT };
}

const NEARLY_EVEN = 1.25; // a map whose largest share is below so many times its mean has no structure worth a color
const LEAST_REACH = 2; // times the mean that a scale of shares reaches at least: small differences stay small

/** Scale of a map of shares, from 0 to its largest share or twice its mean. `flat` is the mean of a nearly even map, which is painted in one
 *  color, and null of any other. */
export function scaleOfShares(cells) {
  const scale = scaleOf(cells);
  if (cells.length < 2) return { ...scale, flat: null };
  const mean = Array.from(cells).reduce((sum, value) => sum + value, 0) / cells.length;
  const flat = mean > 0 && scale.high < NEARLY_EVEN * mean ? mean : null;
  return { ...scale, high: Math.max(scale.high, LEAST_REACH * mean), flat };
}

export const isNearlyEven = (scale) => (scale?.flat ?? null) !== null;

export function colorAt(scale, shown) {
  const value = scale.flat ?? shown;
  const t = (value - scale.low) / (scale.high - scale.low || 1);
  return scale.colors[Math.round(255 * Math.min(1, Math.max(0, t)))];
}

export const css = ([r, g, b]) => `rgb(${r} ${g} ${b})`;

/** One pixel a cell; CSS enlarges it without smoothing. */
export function paintCells(canvas, colors, [rows, columns]) {
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  colors.forEach(([r, g, b], i) => image.data.set([r, g, b, 255], 4 * i));
  context.putImageData(image, 0, 0);
}

export function paintMap(canvas, cells, grid, scale = scaleOf(cells)) {
  paintCells(canvas, Array.from(cells, (value) => colorAt(scale, value)), grid);
}

/** A vector as a strip of colored cells, in rows of at most `columns`. */
export function paintVector(canvas, values, scale = scaleOf(values, { signed: true }), columns = values.length) {
  const rows = Math.ceil(values.length / columns);
  const padded = Array.from({ length: rows * columns }, (_, i) => (i < values.length ? colorAt(scale, values[i]) : [128, 128, 128]));
  paintCells(canvas, padded, [rows, columns]);
}

/** The scale itself, left to right. */
export function paintScale(canvas, scale) {
  paintCells(canvas, scale.colors, [1, 256]);
}
