// The page of segmenters wakes up: an image under the colors of its classes; a pixel's probabilities, and what its place attends to.

import { actionAddress, get, loadImage, imageAddress, post } from "/static/api.js";
import { makeClasses } from "/static/classes.js";
import { find, make, slider } from "/static/dom.js";
import { makeHandIn } from "/static/hand_in.js";
import { paintLabels, readNumbers } from "/static/labels.js";
import { makeLight } from "/static/light.js";
import { openPage, size } from "/static/pages.js";
import { makeReading } from "/static/reading.js";
import { announce, complain, say } from "/static/said.js";
import { css } from "/static/scales.js";
import { count, percent } from "/static/words.js";

const STEPS = 32; // of an arrow key, over a side
const HINT = "Arrow keys move over the image, with Shift pixel by pixel; Enter shows what the place attends to; Escape lets it go.";
const own = { model: null, image: null, found: null, opacity: 0.55, only: null, cursor: [0.5, 0.5], pinned: null, wish: 0, asking: false, next: null };

function furnish() {
  own.images = makeHandIn((image) => {
    own.image = image;
    return ask();
  });
  own.slider = slider("Colors", { id: "colors", min: 0, max: 1, step: 0.05, value: own.opacity, words: (value) => `${Math.round(100 * value)}\u00a0%`, react: (opacity) => {
    own.opacity = opacity;
    paint();
  } });
  find("#opacity").append(own.slider.box);
  own.classes = makeClasses(find("#list"), (only) => {
    own.only = only;
    paint();
  });
  own.reading = makeReading(find("#reading"), { called: { encoder: "layer" }, react: (map) => own.light.light(map) });
}

function useModel(model) {
  Object.assign(own, { model, pinned: null, only: null });
  own.images.offer(model, { first: own.image === null });
  if (own.image) ask();
  else own.images.invite(find("#shown"));
}

function facts(model) {
  const [height, width] = model.image_size;
  return [count(model.labels.length, "class", "classes"), `${model.encoder} with the head ${model.head}`, `learned from ${width} × ${height} px`, ...size(model)];
}

async function ask() {
  const mine = (own.wish += 1);
  const { model, image } = own;
  find("#shown").setAttribute("aria-busy", "true");
  try {
    const [found, bitmap] = await Promise.all([post(actionAddress(model, "find"), { model: model.id, image: image.id }), loadImage(imageAddress(image.id))]);
    const mask = readNumbers(await loadImage(found.mask));
    if (mine === own.wish) show(found, bitmap, mask);
  } catch (error) {
    if (mine === own.wish) complain(gone(error, "image"));
  }
  if (mine === own.wish) find("#shown").removeAttribute("aria-busy");
}

const gone = (error, what) => (error.status === 410 ? { message: `The studio no longer has this ${what}: choose the image once more.` } : error);

function show(found, bitmap, mask) {
  Object.assign(own, { found, mask, pinned: null, only: null });
  own.light = makeLight(find("#shown"), own.image.name);
  own.light.show(bitmap, found);
  own.overlay = make("canvas", { class: "labels", "aria-hidden": "true" });
  own.cross = make("i", { class: "cross", "aria-hidden": "true", hidden: true });
  own.light.over.append(own.overlay, own.cross);
  listen(own.light.frame);
  const { labels, colors } = own.model;
  own.classes.show(found.classes.map(({ index, share, score }) => ({ index, label: labels[index], color: colors[index], share, words: percent(share), more: `sure ${percent(score)}` })));
  find("#answer").hidden = false;
  find("#here").hidden = find("#reading").hidden = true;
  const able = own.model.attention ? "Point at a pixel for its probabilities, click for what it attends to." : "Point at a pixel for its probabilities.";
  find("#numbers").textContent = `${found.classes.length} of ${count(labels.length, "class", "classes")} here · ${Math.round(found.ms)} ms. ${able}`;
  paint();
  announce(`${count(found.classes.length, "class", "classes")}: ${found.classes.map(({ index, share }) => `${labels[index]} ${percent(share)}`).join(", ")}.`);
}

/** The colors; under light only their edges. */
function paint() {
  if (!own.found) return;
  paintLabels(own.overlay, own.mask, own.model.colors, { opacity: own.opacity, only: own.only, fill: own.pinned === null });
}

function listen(frame) {
  Object.assign(frame, { tabIndex: 0 });
  frame.setAttribute("role", "application");
  frame.setAttribute("aria-roledescription", "image of pixels");
  frame.setAttribute("aria-label", own.image.name);
  frame.setAttribute("aria-description", HINT);
  frame.classList.add("aimed");
  frame.addEventListener("pointermove", (event) => event.pointerType !== "touch" && point(own.light.at(event)));
  frame.addEventListener("click", (event) => pin(own.light.at(event)));
  frame.addEventListener("pointerleave", () => point(own.pinned));
  frame.addEventListener("focus", () => frame.matches(":focus-visible") && point(own.cursor));
  frame.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (move) {
      const sides = [own.mask.height, own.mask.width];
      const step = (share, axis) => share + move[axis] * (event.shiftKey ? 1 / sides[axis] : Math.max(1 / STEPS, 1 / sides[axis]));
      point(own.cursor.map((share, axis) => Math.min(1 - 0.5 / sides[axis], Math.max(0.5 / sides[axis], step(share, axis)))));
    } else if (event.key === "Enter" || event.key === " ") pin(own.cursor);
    else if (event.key === "Escape" && own.pinned) letGo();
    else return;
    event.preventDefault();
  });
}

/** Where the pointer or the keys are: that pixel's probabilities; null: nowhere. */
function point(place) {
  own.cross.hidden = place === null;
  if (place === null) {
    find("#here").hidden = true;
    return;
  }
  own.cursor = place;
  Object.assign(own.cross.style, { top: `${100 * place[0]}%`, left: `${100 * place[1]}%` });
  tell(place);
}

/** One question at a time; of what was pointed at meanwhile the last is asked next. */
async function tell(place) {
  own.next = place;
  if (own.asking || !own.found.kept) return;
  own.asking = true;
  while (own.next) {
    const { found, next } = own;
    own.next = null;
    try {
      const answer = await get(actionAddress(own.model, "place", { answer: found.id, ...where(next) }));
      if (found === own.found && !own.cross.hidden) list(answer);
    } catch (error) {
      complain(gone(error, "answer"));
    }
  }
  own.asking = false;
}

const where = ([row, column]) => ({ row, column });

function list({ row, column, index, classes }) {
  const { labels, colors } = own.model;
  const bars = classes.map(({ index: other, p }, i) => {
    const fill = make("i", { class: "bar-fill" });
    fill.style.width = `${100 * p}%`;
    fill.style.background = css(colors[other]);
    return make("li", { class: i ? "" : "first" }, make("span", { class: "label", text: labels[other] }), make("span", { class: "track" }, fill), make("span", { class: "score digits", text: percent(p) }));
  });
  find("#here").replaceChildren(make("div", { class: "head" }, make("h2", { text: labels[index] }), make("span", { class: "soft digits note", text: `row ${row}, column ${column}` })), make("ol", { class: "bars" }, bars));
  find("#here").hidden = false;
  say(`${labels[index]}, ${percent(classes[0].p)}.`);
}

/** What a place attends to; the same place again lets it go. */
async function pin(place) {
  const { found } = own;
  const same = own.pinned !== null && own.pinned.every((share, axis) => Math.abs(share - place[axis]) < 1e-9);
  if (same) return letGo();
  point(place);
  if (!own.model.attention) return;
  own.pinned = place;
  try {
    const { walls } = await get(actionAddress(own.model, "attention", { answer: found.id, ...where(place) }));
    if (found !== own.found || own.pinned !== place) return;
    find("#reading").hidden = false;
    own.reading.show(walls);
    paint();
  } catch (error) {
    letGo();
    complain(gone(error, "answer"));
  }
}

function letGo() {
  own.pinned = null;
  find("#reading").hidden = true;
  own.light.light(null);
  paint();
}

openPage({ furnish, use: useModel, facts });
