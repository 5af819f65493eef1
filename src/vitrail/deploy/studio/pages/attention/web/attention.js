// The view of attention: which layer, which head, which map over the whole image; and the patches that are attended most.

import { choice, make, refill, slider } from "/static/dom.js";
import { crop, marking } from "./crops.js";
import { follow } from "./looks.js";
import { attentionRest, chosenMethod, methodOf, methodRest } from "./shown.js";
import { change, chosenCell, gridOf, headOf, layerOf, nobody, state } from "./state.js";
import { asker, capital, layerNumber, percent, place } from "/static/words.js";

export const attention = { id: "attention", words: "Attention", hint: "What a patch attends to, by layer and head", able: ({ attention: has, methods }) => has || methods.length > 0, build };

function build() {
  const controls = make("div", { class: "controls" });
  const list = make("ol", { class: "strongest" });
  const title = make("h3");
  const note = make("p", { class: "soft note" });
  const box = make("div", {}, controls, note, title, list);
  const own = { key: "", drawn: "", layer: null, heads: null, methods: null };
  return { box, refresh: (one) => refresh(own, { controls, list, title, note }, one) };
}

function refresh(own, { controls, list, title, note }, one) {
  const key = `${one.model.id}|${one.look.layers}|${one.look.heads}`;
  if (key !== own.key) {
    own.key = key;
    furnish(own, controls, one);
  }
  own.layer?.set(layerOf(one));
  own.heads?.press(headOf(one));
  own.methods.press(one.model.attention ? chosenMethod(one) : methodOf(one)?.name);
  own.glass.set(Math.round(100 * state.glass));
  const cell = chosenCell(one);
  const method = one.model.methods.find(({ name }) => name === chosenMethod(one));
  note.textContent = cell === null && method && chosenMethod(one) !== "attention" ? method.words : "";
  const whole = cell === null || !one.model.attention ? methodOf(one) : null;
  if (whole && (!one.model.attention || chosenMethod(one) !== "attention")) {
    follow(own, one, methodRest(whole), ({ cells }) => strongest(own, list, title, one, `Patches that count most, by ${whole.name}`, cells));
    return;
  }
  const query = cell ?? nobody(one);
  const words = query === "received" ? "Patches that receive most" : `${capital(asker(query, gridOf(one)))} attends most to`;
  follow(own, one, attentionRest(one, query), ({ cells }) => strongest(own, list, title, one, words, cells));
}

function furnish(own, controls, one) {
  const { model, look } = one;
  controls.replaceChildren();
  if (model.attention) {
    own.layer = slider("Layer", { id: "layer", min: 0, max: look.layers - 1, value: layerOf(one), words: (n) => layerNumber(n, look.layers), react: (layer) => change({ layer, method: "attention" }) });
    const names = [["mean", "mean", "Mean over heads"], ["max", "max", "Largest over heads"], ["min", "min", "Smallest over heads"], ...Array.from({ length: look.heads }, (_, i) => [i, String(i), `Head ${i}`])];
    own.heads = choice("Head", names, headOf(one), (head) => change({ head, method: "attention" }), "heads");
    controls.append(own.layer.box, make("div", { class: "field" }, make("span", { text: "Head" }), own.heads.box));
  }
  const whole = nobody(one) === "class" ? "class token" : "received";
  const methods = model.methods.filter(({ name }) => name !== "attention" && name !== "random");
  const names = [...(model.attention ? [["attention", whole, "Attention at the chosen layer and head"]] : []), ...methods.map(({ name, words }) => [name, name, name === model.default_method ? `${capital(words)}. The most faithful map in our measurement for models like this one.` : words])];
  own.methods = choice("Map of the whole image", names, chosenMethod(one), (method) => change({ method, pinned: null, hovered: null }), "methods");
  own.glass = slider("Opacity", { id: "glass", min: 0, max: 100, step: 2, value: 100 * state.glass, words: (n) => `${n} %`, react: (n) => change({ glass: n / 100 }) });
  controls.append(make("div", { class: "field" }, make("span", { text: "Map" }), own.methods.box), own.glass.box);
}

function strongest(own, list, title, one, words, cells) {
  const drawn = [one.look.id, own.wish, Boolean(one.seen)].join("|");
  if (own.drawn === drawn) return;
  own.drawn = drawn;
  const grid = gridOf(one);
  title.textContent = words;
  const order = Array.from(cells.keys()).sort((a, b) => cells[b] - cells[a]).slice(0, 5);
  const largest = cells[order[0]] || 1;
  refill(list, order.map((cell, rank) => {
    const bar = make("i", { class: "light-fill" });
    bar.style.width = `${(100 * cells[cell]) / largest}%`;
    const item = make("li", { "data-id": rank }, crop(one, cell, 26), make("span", { text: place(cell, grid) }), make("span", { class: "track" }, bar), make("b", { class: "digits", text: percent(cells[cell]) }));
    return marking(item, cell);
  }));
}
