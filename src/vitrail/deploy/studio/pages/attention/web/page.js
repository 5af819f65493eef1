// The page wakes up: models, choosers, stage, views.

import { models } from "/static/api.js";
import { makeTools } from "./brush.js";
import { makeChoosers, useModel } from "./compare.js";
import { find, make } from "/static/dom.js";
import { makeKeys } from "./keys.js";
import { pageOf, sentElsewhere } from "/static/pages.js";
import { makeImages } from "./images.js";
import { makePredictions } from "./predictions.js";
import { makeRuns } from "/static/runs.js";
import { complain } from "/static/said.js";
import { change, state, watch } from "./state.js";
import { makeTheme } from "/static/theme.js";
import { makeTour } from "./tour.js";
import { makeViews } from "./views.js";

async function wake() {
  makeTheme();
  makeRuns();
  makeKeys();
  const found = await models();
  if (!found.length) throw new Error("There is no model to look into yet. Train one with: vitrail train --data digits");
  if (sentElsewhere(found, location.pathname)) return; // models of other tasks have pages of their own
  const images = found.filter((model) => pageOf(model) === location.pathname);
  change({ models: images });
  await makeChoosers(found);
  makeTools();
  makeImages();
  makePredictions();
  makeViews();
  makeTour();
  await useModel((images.find(({ id }) => id === location.hash.slice(1)) ?? images[0]).id);
  if (!find(".sample") && !state.image) {
    const hint = make("p", { class: "soft empty", text: "Choose, drop or paste an image to begin." });
    find("#stages").prepend(hint);
    watch(["image"], () => hint.remove());
  }
  document.body.dataset.ready = "yes";
}

wake().catch((error) => {
  complain(error);
  find("#facts").textContent = error.message;
});
