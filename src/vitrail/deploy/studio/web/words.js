// Numbers and places as people read them.

export const GAP = "\u00a0"; // "14 %" stays on one line

/** 0.1414 -> "14.1 %"; small shares keep two digits, so that an even share of 1,024 patches is not "0.1 %". */
export function percent(share) {
  const value = 100 * share;
  if (!Number.isFinite(value)) return "–";
  if (Math.abs(value) >= 99.95) return `${value.toFixed(0)}${GAP}%`;
  if (Math.abs(value) >= 0.995) return `${value.toFixed(1)}${GAP}%`;
  if (value === 0) return `0${GAP}%`;
  if (Math.abs(value) < 0.01) return `<0.01${GAP}%`;
  return `${Number(value.toPrecision(2))}${GAP}%`;
}

/** Three digits, a true minus sign. */
export function number(value, digits = 3) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  const text = size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(1) : String(Number(value.toPrecision(digits)));
  return text.replace("-", "−");
}

/** Aligned: a fixed number of decimals, a true minus sign. */
export const fixed = (value, decimals = 2) => value.toFixed(decimals).replace("-", "−");

export const count = (value, one, many = `${one}s`) => `${value.toLocaleString("en")} ${value === 1 ? one : many}`;

export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** Cell 13 of a grid 8 wide -> "row 1, column 5" (counted from 0, as --query is). */
export function place(cell, [, columns]) {
  return `row ${Math.floor(cell / columns)}, column ${cell % columns}`;
}

/** Who asks: a patch, the class token, or nobody (what patches receive). */
export function asker(query, grid) {
  if (query === "class") return "the class token";
  if (query === "received") return "all patches";
  return place(query, grid);
}

/** Layers and heads are counted from 0, as `vitrail explain` and the API count them. */
export const headName = (head) => (typeof head === "number" ? `head ${head}` : `${head} of heads`);
export const layerNumber = (layer, layers) => (layers > 1 ? `${layer} (0–${layers - 1})` : String(layer));

export function largest(cells) {
  let best = 0;
  for (let i = 1; i < cells.length; i++) if (cells[i] > cells[best]) best = i;
  return best;
}
