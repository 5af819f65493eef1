// Images: samples of the run's own test split, and the person's own by button, drop or paste.

import { find, make } from "/static/dom.js";
import { pick, samples, upload } from "/static/api.js";
import { fileButton, listenForFiles } from "/static/files.js";
import { lastWish, newWish, show } from "./looks.js";
import { announce, complain } from "/static/said.js";
import { change, state, watch } from "./state.js";

let strip;

export function makeImages() {
  strip = make("div", { class: "samples", role: "group", "aria-label": "Samples of the test split" });
  const [own, input] = fileButton(take);
  find("#images").append(own, strip, input);
  listenForFiles(take);
  watch(["samples", "image"], refresh);
}

function refresh(changed) {
  if (changed.has("samples")) {
    strip.hidden = state.samples.length === 0;
    strip.replaceChildren(...state.samples.map((sample) =>
      make("button", { type: "button", class: "sample", "data-id": sample.id, title: sample.label, onclick: () => choose(sample) },
        make("img", { src: sample.url, alt: `Sample: ${sample.label}`, loading: "lazy", width: 52, height: 52 }))));
  }
  for (const button of strip.children) button.setAttribute("aria-pressed", String(state.image?.sample === button.dataset.id));
}

/** The samples of a model, the first of them on the stage if there is no image yet. */
export async function loadSamples(model) {
  const wished = lastWish();
  const found = await samples(model.id).catch(() => []);
  if (state.sides[0]?.model !== model) return;
  change({ samples: found.map((sample) => ({ ...sample, id: String(sample.id), raw: sample.id, model: model.id })) });
  const before = state.models.find(({ id }) => id === state.image?.model);
  const stale = before !== undefined && before.labels.join("|") !== model.labels.join("|"); // a sample of other data
  if ((!state.image || stale) && state.samples.length && wished === lastWish()) await choose(state.samples[0]);
}

export async function choose(sample) {
  const mine = newWish();
  try {
    const image = await pick(sample.model, sample.raw);
    await show({ ...image, sample: sample.id, model: sample.model, label: sample.label }, mine);
    if (mine === lastWish()) announce(`Sample on the stage: ${sample.label}.`);
  } catch (error) {
    complain(error);
  }
}

/** A file of the person; whatever is wrong with it is said in one line, and the page goes on. */
export async function take(file) {
  const mine = newWish();
  try {
    const image = await upload(file);
    await show(image, mine);
    if (mine !== lastWish()) return;
    announce(`On the stage: ${image.name}.`);
    if (image.note) complain({ message: image.note });
  } catch (error) {
    complain(error);
  }
}
