// The page of detectors wakes up: an image with its boxes, from a score on, and for a chosen box where the model looked for it.

import { actionAddress, get, loadImage, imageAddress, post } from "/static/api.js";
import { find, make, slider } from "/static/dom.js";
import { makeHandIn } from "/static/hand_in.js";
import { makeLight } from "/static/light.js";
import { openPage, size } from "/static/pages.js";
import { makeReading } from "/static/reading.js";
import { announce, complain } from "/static/said.js";
import { count, fixed } from "/static/words.js";

const own = { model: null, image: null, found: null, threshold: 0.5, chosen: null, wish: 0, marks: [], rows: [] };

function furnish() {
  own.images = makeHandIn((image) => {
    own.image = image;
    return ask();
  });
  own.slider = slider("Score", { id: "score", min: 0.05, max: 0.95, step: 0.01, value: own.threshold, words: (value) => `≥ ${fixed(value)}`, react: (threshold) => {
    own.threshold = threshold;
    refresh();
  } });
  find("#threshold").append(own.slider.box);
  own.reading = makeReading(find("#reading"), { called: { decoder: "block", encoder: "block" }, react: (map) => own.light.light(map) });
  find("#list").addEventListener("keydown", walk);
  addEventListener("keydown", (event) => event.key === "Escape" && own.chosen !== null && choose(null));
}

function useModel(model) {
  Object.assign(own, { model, threshold: Math.min(0.95, Math.max(0.05, model.threshold)), chosen: null });
  own.slider.set(own.threshold);
  own.images.offer(model, { first: own.image === null });
  if (own.image) ask();
  else own.images.invite(find("#shown"));
}

function facts(model) {
  const [height, width] = model.image_size;
  const parts = [model.layers ? `encoder: ${count(model.layers, "layer")}` : null, `decoder: ${count(model.decoder_layers, "layer")}`];
  return [count(model.labels.length, "class", "classes"), `${model.queries} queries`, `sees ${width} × ${height} px`, parts.filter(Boolean).join(", "), ...size(model)];
}

async function ask() {
  const mine = (own.wish += 1);
  const { model, image } = own;
  find("#shown").setAttribute("aria-busy", "true");
  try {
    const [found, bitmap] = await Promise.all([post(actionAddress(model, "find"), { model: model.id, image: image.id }), loadImage(imageAddress(image.id))]);
    if (mine === own.wish) show(found, bitmap);
  } catch (error) {
    if (mine === own.wish) complain(error.status === 410 ? { message: "The studio no longer has this image: choose it once more." } : error);
  }
  if (mine === own.wish) find("#shown").removeAttribute("aria-busy");
}

function show(found, bitmap) {
  Object.assign(own, { found, chosen: null });
  own.light = makeLight(find("#shown"), own.image.name);
  own.light.show(bitmap, found);
  own.light.frame.classList.add("boxed");
  own.marks = found.boxes.map(mark);
  own.rows = found.boxes.map(row);
  const area = (mark) => areaOf(found.boxes[mark.dataset.number]);
  own.light.over.append(...[...own.marks].sort((one, other) => area(other) - area(one))); // the smallest in front, or it could not be clicked
  find("#list").replaceChildren(...own.rows.map((button) => make("li", {}, button)));
  find("#answer").hidden = false;
  refresh();
  announce(`${count(shown().length, "box", "boxes")}: ${shown().map(nameOf).join(", ") || "nothing is that sure"}.`);
}

const nameOf = ({ label }) => own.model.labels[label];
const areaOf = ({ box: [x0, y0, x1, y1] }) => (x1 - x0) * (y1 - y0);
const tagOf = (box) => `${nameOf(box)} ${fixed(box.score)}`;

const shown = () => own.found.boxes.filter(({ score }) => score >= own.threshold);

/** A box on the image: a button as large as the box. */
function mark(box, number) {
  const [x0, y0, x1, y1] = box.box;
  const { width, height } = own.found;
  const button = make("button", { type: "button", class: "found", "data-number": number, tabindex: "-1", "aria-hidden": "true", title: tagOf(box), onclick: () => choose(number) }, make("span", { text: tagOf(box) }));
  const percentOf = (value, side) => `${(100 * value) / side}%`;
  Object.assign(button.style, { left: percentOf(x0, width), top: percentOf(y0, height), width: percentOf(x1 - x0, width), height: percentOf(y1 - y0, height) });
  button.classList.toggle("high", y0 / height < 0.07); // no room for its tag above
  button.style.setProperty("--color", own.model.colors[box.label]);
  for (const [kind, hovered] of [["pointerenter", true], ["pointerleave", false]]) button.addEventListener(kind, () => own.rows[number].classList.toggle("hovered", hovered));
  return button;
}

/** The same box in the list. */
function row(box, number) {
  const [x0, y0, x1, y1] = box.box.map(Math.round);
  const fill = make("i", { class: "bar-fill" });
  fill.style.width = `${100 * box.score}%`;
  const swatch = make("i", { class: "swatch", "aria-hidden": "true" });
  swatch.style.setProperty("--color", own.model.colors[box.label]);
  const button = make("button", { type: "button", class: "object", "data-number": number, "aria-pressed": "false", "aria-label": `${nameOf(box)}, score ${fixed(box.score)}, ${x1 - x0} by ${y1 - y0} pixels`, onclick: () => choose(number) },
    swatch, make("span", { class: "label", text: nameOf(box) }), make("span", { class: "track" }, fill), make("b", { class: "digits", text: fixed(box.score) }),
    make("span", { class: "soft digits where", text: `${x1 - x0} × ${y1 - y0} at ${x0}, ${y0}` }));
  for (const [kind, hovered] of [["pointerenter", true], ["pointerleave", false], ["focus", true], ["blur", false]]) button.addEventListener(kind, () => own.marks[number].classList.toggle("hovered", hovered));
  return button;
}

function walk(event) {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!by) return;
  event.preventDefault();
  const able = own.rows.filter((button) => !button.parentElement.hidden);
  able[able.indexOf(document.activeElement) + by]?.focus();
}

function refresh() {
  if (!own.found) return;
  own.found.boxes.forEach(({ score }, number) => {
    const seen = score >= own.threshold;
    own.marks[number].hidden = own.rows[number].parentElement.hidden = !seen;
    own.marks[number].classList.toggle("chosen", number === own.chosen);
    own.rows[number].setAttribute("aria-pressed", String(number === own.chosen));
    if (!seen && number === own.chosen) queueMicrotask(() => choose(null));
  });
  own.light.frame.classList.toggle("one", own.chosen !== null);
  const many = shown().length;
  const below = own.found.boxes.length - many;
  const none = below ? "Lower the score to see more boxes." : "";
  const hint = !many ? none : !own.model.attention ? "" : own.chosen === null ? "Choose one to see where the model looked for it." : "Esc, or the same box again, lets it go.";
  find("#numbers").textContent = `${count(many, "box", "boxes")}${below ? `, ${below} below the score` : ""} · ${Math.round(own.found.ms)} ms. ${hint}`;
}

/** A box by its number; the one that is chosen is let go. */
async function choose(number) {
  const { found } = own;
  own.chosen = number === own.chosen ? null : number;
  refresh();
  if (own.chosen === null || !own.model.attention) {
    find("#reading").hidden = true;
    own.light.light(null);
    return;
  }
  try {
    const { walls } = await get(actionAddress(own.model, "reading", { answer: found.id, box: number }));
    if (found !== own.found || own.chosen !== number) return;
    find("#reading").hidden = false;
    own.reading.show(walls);
    announce(`${tagOf(found.boxes[number])}: ${walls[0].title.toLowerCase()}.`);
  } catch (error) {
    own.chosen = null;
    refresh();
    complain(error.status === 410 ? { message: "The studio no longer has this answer: choose the image once more." } : error);
  }
}

openPage({ furnish, use: useModel, facts });
