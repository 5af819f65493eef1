// How the prediction forms: what the head would say after each layer, for the whole image and for each patch.

import { make, slider } from "/static/dom.js";
import { lineChart } from "/static/chart.js";
import { follow } from "./looks.js";
import { afterLayers } from "./shown.js";
import { change, state } from "./state.js";
import { capital, largest, layerNumber, percent } from "/static/words.js";

export const lens = { id: "lens", words: "Layers", hint: "How the prediction forms, layer by layer", able: ({ lens: has }) => has, build };
const FEW = 5;

function build() {
  const title = make("h3", { text: "How the prediction forms" });
  const note = make("p", { class: "soft note", text: "The model’s own head, applied after each layer: the lines for the whole image, the panes for each patch." });
  const chart = make("div", { class: "drawing", id: "lens-chart" });
  const bar = make("div", { class: "controls" });
  const said = make("p", { class: "verdict", id: "lens-said" });
  const own = { slider: null, depth: -1 };
  const box = make("div", {}, title, note, chart, bar, said);
  new ResizeObserver(() => own.paint?.()).observe(chart);
  return { box, refresh: (one) => follow(own, one, "lens", (answer) => paint(own, { chart, bar, said, note }, answer)) };
}

function paint(own, { chart, bar, said, note }, answer) {
  const { whole, labels } = answer;
  note.title = answer.words ?? "";
  const depth = whole.length - 1;
  if (own.depth !== depth) {
    own.depth = depth;
    own.slider = slider("Layer", { id: "lens-layer", max: depth, value: Math.min(state.lensLayer, depth), words: (n) => (n === 0 ? "none yet" : layerNumber(n - 1, depth)), react: (n) => change({ lensLayer: n }) });
    bar.replaceChildren(own.slider.box);
  }
  const at = Math.min(state.lensLayer, depth);
  own.slider.set(at);
  const order = labels.map((_, k) => k).sort((a, b) => whole[depth][b] - whole[depth][a]).slice(0, FEW);
  const series = order.map((k) => ({ name: labels[k], points: whole.map((scores, layer) => [layer, scores[k]]) }));
  const best = largest(whole[at]);
  said.textContent = `${capital(afterLayers(at))} the head would say ${labels[best]}, ${percent(whole[at][best])}.`;
  own.paint = () => {
    const width = Math.max(260, Math.min(760, chart.clientWidth));
    const drawn = `${width}|${at}|${whole[depth].join()}`;
    if (chart.clientWidth === 0 || own.drawn === drawn) return;
    own.drawn = drawn;
    chart.replaceChildren(lineChart({
      width, height: 232, series, cursor: at,
      x: { low: 0, high: depth, format: (passed) => (passed === 0 ? "–" : passed - 1), ticks: depth > 12 ? undefined : Array.from({ length: depth + 1 }, (_, i) => i), label: "after layer" },
      y: { low: 0, high: 1, ticks: [0, 0.25, 0.5, 0.75, 1], format: (value) => `${100 * value} %` },
      label: `Probability after each layer of ${series.map(({ name }) => name).join(", ")}`,
      pick: (layer) => change({ lensLayer: layer }),
    }));
  };
  own.paint();
}
