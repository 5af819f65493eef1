// The page of tasks without a page of their own: an image is handed in, and what the task's action `run` answers stands beside it.

import { actionAddress, imageAddress } from "/static/api.js";
import { find, make } from "/static/dom.js";
import { makeHandIn } from "/static/hand_in.js";
import { openPage, size } from "/static/pages.js";
import { showResult } from "/static/results.js";
import { announce, complain } from "/static/said.js";

const SMALL = 400; // pixels a side below which they are to be seen
const own = { model: null, image: null, wish: 0 };

function furnish() {
  own.images = makeHandIn((image) => {
    own.image = image;
    return ask();
  });
}

function useModel(model) {
  own.model = model;
  own.images.offer(model, { first: own.image === null });
  if (own.image) ask();
  else own.images.invite(find("#shown"));
}

function facts(model) {
  return [...(model.image_size ? [`sees ${model.image_size[1]} × ${model.image_size[0]} px`] : []), ...size(model)];
}

async function ask() {
  const mine = (own.wish += 1);
  const { model, image } = own;
  const shown = make("img", { src: imageAddress(image.id), alt: image.name });
  shown.classList.toggle("pixelated", Math.max(image.width, image.height) < SMALL);
  shown.style.setProperty("--ratio", image.width / image.height);
  find("#shown").replaceChildren(shown);
  find("#answer").setAttribute("aria-busy", "true");
  try {
    const words = await showResult(find("#answer"), actionAddress(model, "run"), { model: model.id, image: image.id }, () => mine === own.wish);
    if (words !== null) announce(words);
  } catch (error) {
    if (mine === own.wish) complain(error.status === 410 ? { message: "The studio no longer has this image: choose it once more." } : error);
  }
  if (mine === own.wish) find("#answer").removeAttribute("aria-busy");
}

openPage({ furnish, use: useModel, facts });
