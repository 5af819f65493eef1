// What the page shows, in one object; `change` tells those who watch, once a turn.
//
// A place is {u, v} in the model's field of view (0 to 1), not a cell, so that two models with different grids
// can be asked about the same place.

export const state = {
  models: [],
  sides: [], // one or two: {model, look, before, image, erased, order, ...}; see looks.js
  active: 0, // the side that the views on the right speak of
  image: null, // {id, width, height, name}
  samples: [],
  bitmap: null, // the image itself, for drawing
  hovered: null,
  pinned: null,
  key: null, // a cell marked by a table of the views (six steps)
  tab: "attention",
  layer: 0,
  head: "mean",
  method: "auto", // of each model the map that the measurement recommends
  lensLayer: 0,
  colorLayer: 0,
  tool: "look",
  glass: 0.6,
  reads: false, // draw what the model reads instead of the image
  version: 0, // counts looks
};

let watchers = [];
let waiting = null;

/** Sets what differs and tells the watchers of these names in the same turn of the event loop. */
export function change(changes) {
  for (const [name, value] of Object.entries(changes)) {
    if (Object.is(state[name], value)) continue;
    state[name] = value;
    if (!waiting) {
      waiting = new Set();
      queueMicrotask(tell);
    }
    waiting.add(name);
  }
}

/** Calls `react(names)` after any of `names` has changed, until the function that it returns is called. */
export function watch(names, react) {
  const own = [new Set(names), react];
  watchers = [...watchers, own];
  return () => (watchers = watchers.filter((other) => other !== own));
}

function tell() {
  const changed = waiting;
  waiting = null;
  for (const [names, react] of watchers) {
    if ([...changed].some((name) => names.has(name))) react(changed);
  }
}

export const side = () => state.sides[state.active] ?? state.sides[0] ?? null;

// --- places and cells -----------------------------------------------------------------------------------------------

export const gridOf = (one) => one?.look?.grid ?? one?.model?.grid ?? [1, 1];

export function cellAt(one, point) {
  if (!point || !one) return null;
  const [rows, columns] = gridOf(one);
  return Math.min(rows - 1, Math.floor(point.v * rows)) * columns + Math.min(columns - 1, Math.floor(point.u * columns));
}

export function pointOf(one, cell) {
  if (cell === null) return null;
  const [rows, columns] = gridOf(one);
  return { u: ((cell % columns) + 0.5) / columns, v: (Math.floor(cell / columns) + 0.5) / rows };
}

/** The cell under the pointer, else the pinned one, else null. */
export const chosenCell = (one) => cellAt(one, state.hovered ?? state.pinned);

export const layerOf = (one) => Math.max(0, Math.min(state.layer, (one.look?.layers ?? one.model.layers) - 1));

export function headOf(one) {
  return typeof state.head === "number" ? Math.min(state.head, (one.look?.heads ?? one.model.heads) - 1) : state.head;
}

/** Who looks at the whole image: the class token, or all patches together where there is none. */
export const nobody = (one) => (one.model.pool === "class" ? "class" : "received");
