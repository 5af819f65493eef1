// The page of masked autoencoders wakes up: patches of an image are hidden by a slider, by chance or by hand, and drawn by the model.

import { actionAddress, loadImage, post } from "/static/api.js";
import { choice, find, make, slider } from "/static/dom.js";
import { makeHandIn } from "/static/hand_in.js";
import { openPage, size } from "/static/pages.js";
import { makePanels } from "./panels.js";
import { announce, complain } from "/static/said.js";
import { count, fixed, percent } from "/static/words.js";

const PAUSE = 40; // milliseconds that a slider rests before the model is asked
const own = { model: null, image: null, share: 0.75, seed: 0, hand: null, statistics: "true", asking: false, again: false, timer: 0 };

function furnish() {
  own.images = makeHandIn((image) => {
    Object.assign(own, { image, hand: null });
    own.panels.clear();
    return ask();
  });
  own.panels = makePanels(find("#panels"), touched);
  own.slider = slider("Masked", { id: "share", min: 0.05, max: 0.95, step: 0.01, value: own.share, words: whole, react: (share) => wish({ share, hand: null }) });
  own.another = make("button", { type: "button", id: "another", text: "Another mask", title: "As many patches, but others", onclick: () => wish({ seed: own.seed + 1, hand: null }) });
  find("#hiding").append(own.slider.box, own.another);
  own.contrast = choice("Mean and contrast", [["true", "Of the true patch"], ["seen", "From visible patches"]], own.statistics, (statistics) => {
    own.contrast.press(statistics);
    wish({ statistics });
  });
  find("#contrast").append(make("span", { text: "Mean and contrast" }), own.contrast.box);
}

const whole = (share) => `${Math.round(100 * share)}\u00a0%`;

function useModel(model) {
  Object.assign(own, { model, hand: null, share: Math.min(0.95, Math.max(0.05, model.hide)) });
  own.slider.set(own.share);
  own.panels.use(model);
  find("#meaning").textContent = caption(model);
  find("#contrast").hidden = !model.normalize;
  own.images.offer(model, { first: own.image === null });
  if (own.image) ask();
  else own.images.invite(find("#inviting"));
}

function facts(model) {
  const [[rows, columns], [height, width]] = [model.grid, model.patch];
  return [`${rows} × ${columns} patches of ${height} × ${width} px`, `trained with ${whole(model.hide)} of them masked`,
    `encoder: ${count(model.layers, "layer")}`, `decoder: ${count(model.decoder_layers, "layer")}`, ...size(model)];
}

function caption(model) {
  const normal = "The model predicts each patch without its mean and contrast. To be shown, a prediction gets those of the true patch, which the model never saw, or those interpolated from the visible patches around it.";
  return `Click patches to mask or show them. ${model.normalize ? normal : "The model predicts the pixels themselves."} It was trained on masked patches alone: what it draws in place of visible ones does not count.`;
}

/** A patch was hidden or shown by hand: `hidden` are all that are now. */
function touched(hidden, words) {
  own.slider.set(Math.min(0.95, Math.max(0.05, hidden.size / (own.model.grid[0] * own.model.grid[1]))));
  announce(words);
  wish({ hand: [...hidden] });
}

/** Another mask, once the person rests for a moment. */
function wish(changes) {
  Object.assign(own, changes);
  if (!own.image) return;
  clearTimeout(own.timer);
  own.timer = setTimeout(ask, PAUSE);
}

/** One question at a time; what was wished for meanwhile is asked next, and only the last of it. */
async function ask() {
  clearTimeout(own.timer);
  own.again = own.asking;
  if (own.asking) return;
  own.asking = true;
  find("#panels").setAttribute("aria-busy", "true");
  const { model, image, share, seed, hand, statistics } = own;
  try {
    const found = await post(actionAddress(model, "draw"), { model: model.id, image: image.id, share, seed, hidden: hand, statistics });
    const [read, drawn] = await Promise.all([loadImage(found.read), loadImage(found.drawn)]);
    if (model === own.model && image === own.image) show(found, read, drawn, own.hand === hand);
  } catch (error) {
    if (own.hand) own.hand = own.panels.undo();
    complain(error.status === 410 ? { message: "The studio no longer has this image: choose it once more." } : error);
  }
  own.asking = false;
  if (own.again) return ask();
  find("#panels").removeAttribute("aria-busy");
}

/** `latest`: whether no patch was clicked meanwhile; those that were stay as they are until the next answer. */
function show(found, read, drawn, latest) {
  find("#inviting").replaceChildren();
  find("#panels").hidden = find("#numbers").hidden = false;
  own.panels.show({ read, drawn, hidden: latest ? found.hidden : null });
  const cells = own.model.grid[0] * own.model.grid[1];
  const details = [`${found.hidden.length} of ${count(cells, "patch", "patches")} masked, ${percent(found.share)}`, explained(found), `${found.ms < 10 ? fixed(found.ms, 1) : Math.round(found.ms)} ms`];
  find("#numbers").textContent = details.join(" · ");
  announce(details.slice(0, 2).join("; "));
}

function explained({ explained: share, hidden }) {
  if (!hidden.length) return "nothing to draw";
  if (share === null) return "the masked patches have no variance to explain";
  return `${percent(share).replace("-", "−")} of their variance explained`;
}

openPage({ furnish, use: useModel, facts });
