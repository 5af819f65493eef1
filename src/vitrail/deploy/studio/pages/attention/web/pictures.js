// Pictures: samples of the run's own test split, and the person's own by button, drop or paste.

import { find, make } from "/static/dom.js";
import { pick, samples, upload } from "/static/api.js";
import { fileButton, listenForFiles } from "/static/files.js";
import { lastWish, newWish, show } from "./looks.js";
import { announce, complain } from "/static/said.js";
import { change, state, watch } from "./state.js";

let strip;

export function makePictures() {
  strip = make("div", { class: "samples", role: "group", "aria-label": "Samples of the test split" });
  const [own, input] = fileButton(take);
  find("#pictures").append(own, strip, input);
  listenForFiles(take);
  watch(["samples", "picture"], refresh);
}

function refresh(changed) {
  if (changed.has("samples")) {
    strip.hidden = state.samples.length === 0;
    strip.replaceChildren(...state.samples.map((sample) =>
      make("button", { type: "button", class: "sample", "data-id": sample.id, title: sample.label, onclick: () => choose(sample) },
        make("img", { src: sample.url, alt: `Sample: ${sample.label}`, loading: "lazy", width: 52, height: 52 }))));
  }
  for (const button of strip.children) button.setAttribute("aria-pressed", String(state.picture?.sample === button.dataset.id));
}

/** The samples of a model, the first of them on the stage if there is no picture yet. */
export async function loadSamples(model) {
  const wished = lastWish();
  const found = await samples(model.id).catch(() => []);
  if (state.sides[0]?.model !== model) return;
  change({ samples: found.map((sample) => ({ ...sample, id: String(sample.id), raw: sample.id, model: model.id })) });
  const before = state.models.find(({ id }) => id === state.picture?.model);
  const stale = before !== undefined && before.labels.join("|") !== model.labels.join("|"); // a sample of other data
  if ((!state.picture || stale) && state.samples.length && wished === lastWish()) await choose(state.samples[0]);
}

export async function choose(sample) {
  const mine = newWish();
  try {
    const picture = await pick(sample.model, sample.raw);
    await show({ ...picture, sample: sample.id, model: sample.model, label: sample.label }, mine);
    if (mine === lastWish()) announce(`Sample on the stage: ${sample.label}.`);
  } catch (error) {
    complain(error);
  }
}

/** A file of the person; whatever is wrong with it is said in one line, and the page goes on. */
export async function take(file) {
  const mine = newWish();
  try {
    const picture = await upload(file);
    await show(picture, mine);
    if (mine !== lastWish()) return;
    announce(`On the stage: ${picture.name}.`);
    if (picture.note) complain({ message: picture.note });
  } catch (error) {
    complain(error);
  }
}
