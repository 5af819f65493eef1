// The legend under a stage: what the map is, its scale with true numbers, and the number of the patch under the pointer.

import { make } from "./dom.js";
import { isNearlyEven, paintScale } from "./scales.js";

export function makeLegend() {
  const title = make("strong", { class: "map-title" });
  const where = make("span", { class: "soft" });
  const low = make("span", { class: "digits low" });
  const high = make("span", { class: "digits high" });
  const bar = make("canvas", { width: 256, height: 1, "aria-hidden": "true" });
  const needle = make("i", { class: "needle", hidden: true });
  const even = make("i", { class: "even", hidden: true });
  const ruler = make("span", { class: "ruler" }, bar, even, needle);
  const scale = make("div", { class: "scale" }, low, ruler, high);
  const readout = make("p", { class: "readout soft digits" });
  const facts = make("dl", { class: "facts" });
  const inset = make("canvas", { class: "inset", width: 1, height: 1, "aria-hidden": "true" });
  const box = make("figcaption", { class: "legend" }, inset, make("p", {}, title, " ", where), scale, make("div", { class: "numbers" }, readout, facts));
  let painted = null;

  function show(one, map, hovered) {
    title.textContent = map ? map.title : "The image in patches";
    const [rows, columns] = one.look ? one.look.grid : one.model.grid;
    where.textContent = map ? [map.where, isNearlyEven(map.scale) ? "nearly even" : ""].filter(Boolean).join(" · ") : `${rows} × ${columns} panes`;
    scale.hidden = !map?.scale;
    facts.replaceChildren(...(map?.facts ?? []).map(([name, value, hint]) => make("div", { title: hint }, make("dt", { text: name }), make("dd", { text: value }))));
    if (!map) readout.textContent = "";
    if (!map?.scale) {
      if (map) readout.textContent = hovered === null ? "" : map.tell(hovered);
      return;
    }
    if (painted !== map.scale.colors) paintScale(bar, map.scale);
    painted = map.scale.colors;
    const at = (value) => `${100 * Math.min(1, Math.max(0, (value - map.scale.low) / (map.scale.high - map.scale.low)))}%`;
    low.textContent = map.format(map.scale.low);
    high.textContent = map.format(map.scale.high);
    even.hidden = map.even === null;
    if (map.even !== null) {
      even.style.left = at(map.even);
      even.title = `even share: ${map.format(map.even)}`;
    }
    const cell = hovered ?? map.top;
    needle.hidden = cell === null;
    if (cell !== null) needle.style.left = at(map.cells[cell]);
    const shares = map.even === null || map.labels ? "" : ` · even share ${map.format(map.even)}`;
    readout.textContent = `${cell === null ? "" : map.tell(cell)}${shares}`;
  }
  return { box, show, inset };
}
