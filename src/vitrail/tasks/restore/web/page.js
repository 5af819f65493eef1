// The page of models that restore images wakes up: an image is handed in, made worse if asked, restored while one watches, and compared.

import { actionAddress, loadImage, imageAddress, post } from "/static/api.js";
import { choice, find, make } from "/static/dom.js";
import { makeHandIn } from "/static/hand_in.js";
import { openPage, size } from "/static/pages.js";
import { follow, showProgress, stopJob } from "/static/progress.js";
import { announce, complain, toast } from "/static/said.js";
import { capital, fixed } from "/static/words.js";
import { makeZoom } from "./zoom.js";

const SMALL = 400; // pixels a side below which they are to be seen
const own = { model: null, image: null, worse: false, wish: 0, running: null, seed: 0 };

function furnish() {
  own.images = makeHandIn((image) => {
    own.image = image;
    return restore();
  });
  find("#again").addEventListener("click", restore);
  find("#stop").addEventListener("click", stop);
}

function useModel(model) {
  own.model = model;
  own.worse = model.degradation !== null;
  const ways = choice("The image", [["as it is", "As it is"], ["worse", "Made worse first"]], own.worse ? "worse" : "as it is", (value) => {
    own.worse = value === "worse";
    ways.press(value);
    mean();
    if (own.image) restore();
  });
  ways.buttons.get("worse").disabled = model.degradation === null;
  find("#ways").replaceChildren(make("span", { text: "The image" }), ways.box);
  mean();
  own.images.offer(model);
  if (own.image) restore();
  else own.images.invite(find("#shown"));
}

/** What will be done, in a sentence. */
function mean() {
  const { scale, degraded, degradation } = own.model;
  const larger = scale > 1 ? `comes out ${scale} times larger` : "comes out at its own size";
  const worse = `The model is given your image ${degraded}, as in training, and your image is the truth to compare with.`;
  const plain = degradation === null ? `The image is taken as it is and ${larger}.` : `The image is taken as it is and ${larger}. The model learned from images ${degraded}.`;
  find("#meant").textContent = (own.worse ? worse : plain) + (scale > 1 ? " To compare, what is given is enlarged bicubically." : "");
}

function facts(model) {
  const details = [model.scale > 1 ? `${model.scale} times larger` : "same size", model.channels === 1 ? "gray" : "color"];
  if (model.degraded) details.push(`learned from images ${model.degraded}`);
  return [...details, ...size(model)];
}

/** One restoration from the wish to the slider; a newer wish takes its place, and the server lets go of this one. */
async function restore() {
  const mine = (own.wish += 1);
  const { model, image } = own;
  for (const id of ["#close", "#notes", "#resting"]) find(id).hidden = true;
  const waiting = make("img", { src: imageAddress(image.id), alt: image.name, class: "waiting" });
  waiting.style.setProperty("--ratio", image.width / image.height); // as large as the slider will be
  waiting.classList.toggle("pixelated", Math.max(image.width, image.height) < SMALL);
  find("#shown").replaceChildren(make("div", { class: "stand-in" }, waiting));
  working({ state: "waiting", done: 0, of: 0 });
  try {
    const started = await post(actionAddress(model, "run"), { model: model.id, image: image.id, degrade: own.worse, seed: own.seed });
    own.running = started.id;
    const found = await follow(actionAddress(model, "run"), started, { working, current: () => mine === own.wish });
    if (found === null) return;
    working(null);
    if (found.state === "done") return await show(found, mine);
    rest();
    if (found.state === "failed") toast(found.error);
    else announce("Stopped.");
  } catch (error) {
    if (mine !== own.wish) return;
    working(null);
    rest();
    complain(error.status === 410 ? { message: "The studio no longer has this image: choose it once more." } : error);
  }
}

/** The image as it came, until somebody wishes for more. */
function rest() {
  find("#shown > .stand-in")?.classList.add("still");
  find("#resting").hidden = false;
}

const working = (found) => showProgress(found, { step: "tile", doing: "Restoring" });
const stop = () => own.running !== null && stopJob(actionAddress(own.model, "run"), own.running);

const decibels = (value) => (value >= 100 ? "exact" : `${fixed(value)}\u00a0dB`);

async function show(found, mine) {
  const address = (which) => actionAddress(own.model, "image", { answer: found.id, which });
  const images = await Promise.all(found.images.map((which) => loadImage(address(which))));
  if (mine !== own.wish) return;
  const { psnr_given: before, psnr_restored: after } = found.scores;
  const gain = after - before;
  const notes = { given: before && decibels(before), restored: after && `${decibels(after)}, ${gain < 0 ? "−" : "+"}${Math.abs(gain).toFixed(2)}\u00a0dB` };
  const panes = found.images.map((which, i) => ({ image: images[i], title: which, note: notes[which] }));

  const slider = make("before-after", {}, ...panes.slice(0, 2).map(({ image, title }, i) => {
    image.alt = title;
    if (Math.max(found.width, found.height) < SMALL) image.classList.add("pixelated");
    return make("figure", { class: i ? "after" : "before" }, image, make("figcaption", { text: title }));
  }));
  slider.style.setProperty("--aspect", `${found.width} / ${found.height}`);
  slider.style.setProperty("--ratio", found.width / found.height);
  find("#shown").replaceChildren(slider);
  const { box, side } = makeZoom(panes, { square: found.square, slider });

  const file = `${own.image.name.replace(/\.\w+$/, "")}_restored.png`;
  const change = found.given.join() === [found.height, found.width].join() ? "" : `${found.given[1].toLocaleString("en")} × ${found.given[0].toLocaleString("en")} → `;
  find("#close").replaceChildren(
    make("div", { class: "head" }, make("h2", { text: "Enlarged" }), make("span", { class: "soft note", text: `${side} × ${side} pixels; point at the image to move it` })), box,
    make("div", { class: "foot" }, make("a", { class: "button chief", href: address("restored"), download: file, text: "Download" }),
      make("span", { class: "soft digits note", text: `${change}${found.width.toLocaleString("en")} × ${found.height.toLocaleString("en")} pixels, ${(found.ms / 1000).toFixed(1)} s` })));
  find("#close").hidden = false;
  find("#notes").textContent = found.notes.join(" ");
  find("#notes").hidden = !found.notes.length;
  announce(`${capital(own.image.name)} is restored${before ? `: ${decibels(before)} given, ${decibels(after)} restored` : ""}.`);
}

openPage({ furnish, use: useModel, facts });
