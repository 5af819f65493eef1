// The page wakes up: models, choosers, stage, views.

import { models } from "/static/api.js";
import { makeTools } from "./brush.js";
import { makeChoosers, useModel } from "./compare.js";
import { find, make } from "/static/dom.js";
import { makeKeys } from "./keys.js";
import { pageOf, sentElsewhere } from "/static/pages.js";
import { makePictures } from "./pictures.js";
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
  const pictures = found.filter((model) => pageOf(model) === location.pathname);
  change({ models: pictures });
  await makeChoosers(found);
  makeTools();
  makePictures();
  makePredictions();
  makeViews();
  makeTour();
  await useModel((pictures.find(({ id }) => id === location.hash.slice(1)) ?? pictures[0]).id);
  if (!find(".sample") && !state.picture) {
    const hint = make("p", { class: "soft empty", text: "Choose, drop or paste a picture to begin." });
    find("#stages").prepend(hint);
    watch(["picture"], () => hint.remove());
  }
  document.body.dataset.ready = "yes";
}

wake().catch((error) => {
  complain(error);
  find("#facts").textContent = error.message;
});
