// The page of models that restore pictures wakes up: a picture is handed in, made worse if asked, restored while one watches, and compared.

import { actionAddress, loadImage, pictureAddress, post } from "/static/api.js";
import { choice, find, make } from "/static/dom.js";
import { makeHandIn } from "/static/hand_in.js";
import { openPage, size } from "/static/pages.js";
import { follow, showProgress, stopJob } from "/static/progress.js";
import { announce, complain, toast } from "/static/said.js";
import { capital, fixed } from "/static/words.js";
import { makeZoom } from "./zoom.js";

const SMALL = 400; // pixels a side below which they are to be seen
const own = { model: null, picture: null, worse: false, wish: 0, running: null, seed: 0 };

function furnish() {
  own.pictures = makeHandIn((picture) => {
    own.picture = picture;
    return restore();
  });
  find("#again").addEventListener("click", restore);
  find("#stop").addEventListener("click", stop);
}

function useModel(model) {
  own.model = model;
  own.worse = model.degradation !== null;
  const ways = choice("The picture", [["as it is", "As it is"], ["worse", "Made worse first"]], own.worse ? "worse" : "as it is", (value) => {
    own.worse = value === "worse";
    ways.press(value);
    mean();
    if (own.picture) restore();
  });
  ways.buttons.get("worse").disabled = model.degradation === null;
  find("#ways").replaceChildren(make("span", { text: "The picture" }), ways.box);
  mean();
  own.pictures.offer(model);
  if (own.picture) restore();
  else own.pictures.invite(find("#shown"));
}

/** What will be done, in a sentence. */
function mean() {
  const { scale, degraded, degradation } = own.model;
  const larger = scale > 1 ? `comes out ${scale} times larger` : "comes out at its own size";
  const worse = `The model is given your picture ${degraded}, as in training, and your picture is the truth to compare with.`;
  const plain = degradation === null ? `The picture is taken as it is and ${larger}.` : `The picture is taken as it is and ${larger}. The model learned from pictures ${degraded}.`;
  find("#meant").textContent = (own.worse ? worse : plain) + (scale > 1 ? " To compare, what is given is enlarged bicubically." : "");
}

function facts(model) {
  const told = [model.scale > 1 ? `${model.scale} times larger` : "same size", model.channels === 1 ? "gray" : "color"];
  if (model.degraded) told.push(`learned from pictures ${model.degraded}`);
  return [...told, ...size(model)];
}

/** One restoration from the wish to the slider; a newer wish takes its place, and the server lets go of this one. */
async function restore() {
  const mine = (own.wish += 1);
  const { model, picture } = own;
  for (const id of ["#close", "#notes", "#resting"]) find(id).hidden = true;
  const waiting = make("img", { src: pictureAddress(picture.id), alt: picture.name, class: "waiting" });
  waiting.style.setProperty("--ratio", picture.width / picture.height); // as large as the slider will be
  waiting.classList.toggle("pixelated", Math.max(picture.width, picture.height) < SMALL);
  find("#shown").replaceChildren(make("div", { class: "stand-in" }, waiting));
  working({ state: "waiting", done: 0, of: 0 });
  try {
    const begun = await post(actionAddress(model, "run"), { model: model.id, picture: picture.id, degrade: own.worse, seed: own.seed });
    own.running = begun.id;
    const found = await follow(actionAddress(model, "run"), begun, { working, current: () => mine === own.wish });
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
    complain(error.status === 410 ? { message: "The studio no longer has this picture: choose it once more." } : error);
  }
}

/** The picture as it came, until somebody wishes for more. */
function rest() {
  find("#shown > .stand-in")?.classList.add("still");
  find("#resting").hidden = false;
}

const working = (found) => showProgress(found, { step: "tile", doing: "Restoring" });
const stop = () => own.running !== null && stopJob(actionAddress(own.model, "run"), own.running);

const decibels = (value) => (value >= 100 ? "exact" : `${fixed(value)}\u00a0dB`);

async function show(found, mine) {
  const address = (which) => actionAddress(own.model, "image", { answer: found.id, which });
  const images = await Promise.all(found.pictures.map((which) => loadImage(address(which))));
  if (mine !== own.wish) return;
  const { psnr_given: before, psnr_restored: after } = found.scores;
  const gain = after - before;
  const notes = { given: before && decibels(before), restored: after && `${decibels(after)}, ${gain < 0 ? "−" : "+"}${Math.abs(gain).toFixed(2)}\u00a0dB` };
  const panes = found.pictures.map((which, i) => ({ image: images[i], title: which, note: notes[which] }));

  const slider = make("before-after", {}, ...panes.slice(0, 2).map(({ image, title }, i) => {
    image.alt = title;
    if (Math.max(found.width, found.height) < SMALL) image.classList.add("pixelated");
    return make("figure", { class: i ? "after" : "before" }, image, make("figcaption", { text: title }));
  }));
  slider.style.setProperty("--aspect", `${found.width} / ${found.height}`);
  slider.style.setProperty("--ratio", found.width / found.height);
  find("#shown").replaceChildren(slider);
  const { box, side } = makeZoom(panes, { square: found.square, slider });

  const file = `${own.picture.name.replace(/\.\w+$/, "")}_restored.png`;
  const change = found.given.join() === [found.height, found.width].join() ? "" : `${found.given[1].toLocaleString("en")} × ${found.given[0].toLocaleString("en")} → `;
  find("#close").replaceChildren(
    make("div", { class: "head" }, make("h2", { text: "Enlarged" }), make("span", { class: "soft note", text: `${side} × ${side} pixels; point at the picture to move it` })), box,
    make("div", { class: "foot" }, make("a", { class: "button chief", href: address("restored"), download: file, text: "Download" }),
      make("span", { class: "soft digits note", text: `${change}${found.width.toLocaleString("en")} × ${found.height.toLocaleString("en")} pixels, ${(found.ms / 1000).toFixed(1)} s` })));
  find("#close").hidden = false;
  find("#notes").textContent = found.notes.join(" ");
  find("#notes").hidden = !found.notes.length;
  announce(`${capital(own.picture.name)} is restored${before ? `: ${decibels(before)} given, ${decibels(after)} restored` : ""}.`);
}

openPage({ furnish, use: useModel, facts });
