// Which model looks, and a second one beside it.

import { find, make } from "/static/dom.js";
import { newSide, run } from "./looks.js";
import { fillChooser, size, visit } from "/static/pages.js";
import { loadSamples } from "./images.js";
import { makeStage } from "./stage.js";
import { change, side, state, watch } from "./state.js";
import { count } from "/static/words.js";

const stages = [];

/** `all`: of other pages too; choosing one of those opens its page. */
export async function makeChoosers(all) {
  const [first, second, button] = [find("#model"), find("#other"), find("#compare")];
  await fillChooser(first, all, location.pathname);
  await fillChooser(second, state.models, location.pathname);
  first.addEventListener("change", () => (modelOf(first.value) ? useModel(first.value) : visit(all.find(({ id }) => id === first.value))));
  second.addEventListener("change", () => compare(second.value));
  button.addEventListener("click", toggleCompare);
  button.disabled = state.models.length < 2;
  button.title = button.disabled ? "There is only one model: give `vitrail studio` a second run" : "Two models on the same image";
  watch(["sides", "active", "version"], () => {
    const two = state.sides.length > 1;
    find("#second").hidden = !two;
    button.setAttribute("aria-pressed", String(two));
    first.value = state.sides[0]?.model.id;
    if (two) second.value = state.sides[1].model.id;
    document.body.classList.toggle("two", two);
    find("#facts").replaceChildren(...(side() ? facts(side().model).map((text) => make("span", { text })) : []));
  });
}

const modelOf = (id) => state.models.find((model) => String(model.id) === String(id));

/** Puts a model on the first side; the image stays, unless it was a sample of the other model's data. */
export async function useModel(id) {
  const model = modelOf(id);
  setSides([newSide(model), ...state.sides.slice(1)]);
  change({ active: 0, layer: Math.max(0, model.layers - 1), lensLayer: model.layers, colorLayer: model.layers - 1, head: "mean", method: "auto", reads: Math.max(...model.image_size) <= 64 });
  if (state.image) run(state.sides[0]);
  await loadSamples(model);
}

export function compare(id) {
  setSides([state.sides[0], newSide(modelOf(id))]);
  Object.assign(state.sides[0], { erased: new Set(), order: null });
  return Promise.all(state.sides.map(run));
}

export function toggleCompare() {
  if (state.sides.length > 1) {
    change({ active: 0 });
    setSides([state.sides[0]]);
    return;
  }
  const other = state.models.find(({ id }) => id !== state.sides[0].model.id);
  if (other) compare(other.id);
}

function setSides(sides) {
  while (stages.length > sides.length) stages.pop().leave();
  while (stages.length < sides.length) {
    stages.push(makeStage(stages.length));
    find("#stages").append(stages.at(-1).box);
  }
  change({ sides });
}

function facts(model) {
  const [rows, columns] = model.grid;
  const details = [];
  if (model.layers) details.push(`${count(model.layers, "layer")}${model.heads ? ` × ${count(model.heads, "head")}` : ""}`);
  if (model.patch) details.push(`${rows} × ${columns} patches of ${model.patch[0]} × ${model.patch[1]} px`);
  if (!model.labels.length) details.push("a backbone without labels");
  return [...details, ...size(model)];
}
