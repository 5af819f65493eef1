// The page of tasks without a page of their own: an image is handed in, and what the task's action `run` answers stands beside it.

import { actionAddress, pictureAddress } from "/static/api.js";
import { find, make } from "/static/dom.js";
import { makeHandIn } from "/static/hand_in.js";
import { openPage, size } from "/static/pages.js";
import { showResult } from "/static/results.js";
import { announce, complain } from "/static/said.js";

const SMALL = 400; // pixels a side below which they are to be seen
const own = { model: null, picture: null, wish: 0 };

function furnish() {
  own.pictures = makeHandIn((picture) => {
    own.picture = picture;
    return ask();
  });
}

function useModel(model) {
  own.model = model;
  own.pictures.offer(model, { first: own.picture === null });
  if (own.picture) ask();
  else own.pictures.invite(find("#shown"));
}

function facts(model) {
  return [...(model.image_size ? [`sees ${model.image_size[1]} × ${model.image_size[0]} px`] : []), ...size(model)];
}

async function ask() {
  const mine = (own.wish += 1);
  const { model, picture } = own;
  const image = make("img", { src: pictureAddress(picture.id), alt: picture.name });
  image.classList.toggle("pixelated", Math.max(picture.width, picture.height) < SMALL);
  image.style.setProperty("--ratio", picture.width / picture.height);
  find("#shown").replaceChildren(image);
  find("#answer").setAttribute("aria-busy", "true");
  try {
    const words = await showResult(find("#answer"), actionAddress(model, "run"), { model: model.id, picture: picture.id }, () => mine === own.wish);
    if (words !== null) announce(words);
  } catch (error) {
    if (mine === own.wish) complain(error.status === 410 ? { message: "The studio no longer has this image: choose it once more." } : error);
  }
  if (mine === own.wish) find("#answer").removeAttribute("aria-busy");
}

openPage({ furnish, use: useModel, facts });
