// The guided tour: a card that walks along the path of the image. It can be left and entered again at the same step.

import { find, make } from "/static/dom.js";
import { closeRuns } from "/static/runs.js";
import { complain, toast } from "/static/said.js";
import { change, side, watch } from "./state.js";
import { STEPS } from "./tour_steps.js";

const own = { at: 0, open: false, round: 0 };

export function makeTour() {
  own.title = make("h2", { id: "guide-title", tabindex: "-1" });
  own.words = make("p", { id: "guide-words", "aria-live": "polite" });
  own.dots = make("ol", { class: "dots", "aria-hidden": "true" });
  own.back = make("button", { type: "button", id: "tour-back", text: "Back", onclick: () => go(own.at - 1) });
  own.next = make("button", { type: "button", id: "tour-next", class: "chief", text: "Next", onclick: () => go(own.at + 1) });
  const leave = make("button", { type: "button", class: "quiet", id: "tour-leave", text: "Leave", onclick: leaveTour });
  own.count = make("span", { class: "soft digits", id: "tour-count" });
  own.card = find("#guide");
  own.card.append(make("div", { class: "head" }, own.count, leave), own.title, own.words, make("div", { class: "foot" }, own.dots, own.back, own.next));
  find("#tour").addEventListener("click", toggleTour);
  own.card.addEventListener("keydown", (event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!move) return;
    event.preventDefault();
    go(own.at + move);
  });
  for (const name of ["resize", "scroll"]) addEventListener(name, place, { passive: true });
  new ResizeObserver(place).observe(find("#main"));
  watch(["version", "hovered", "pinned", "layer", "head", "lensLayer"], () => own.open && speak());
}

export const touring = () => own.open;

export function toggleTour() {
  if (own.open) leaveTour();
  else if (side()?.look) go(own.at);
  else toast("Choose or drop an image first: the tour walks along it.");
}

export function leaveTour() {
  own.open = false;
  own.card.hidden = find("#spot").hidden = true;
  document.body.classList.remove("touring");
  find("#tour").setAttribute("aria-pressed", "false");
  change({ tool: "look" });
  find("#tour").focus({ preventScroll: true });
}

const walk = () => STEPS.filter(({ able }) => !able || able(side().model));

async function go(at) {
  const path = walk();
  if (at >= path.length) {
    own.at = 0;
    leaveTour();
    return;
  }
  closeRuns();
  const entering = !own.open;
  own.at = Math.max(0, at);
  own.open = true;
  document.body.classList.add("touring");
  find("#tour").setAttribute("aria-pressed", "true");
  const step = path[own.at];
  own.card.hidden = false;
  own.title.textContent = step.title;
  own.count.textContent = `${own.at + 1} of ${path.length}`;
  own.back.disabled = own.at === 0;
  own.next.textContent = own.at === path.length - 1 ? "Done" : "Next";
  own.dots.replaceChildren(...path.map((_, i) => make("li", { class: i === own.at ? "now" : null })));
  change({ tool: "look", hovered: null, key: null });
  step.prepare?.(side());
  find(step.at)?.scrollIntoView({ block: matchMedia("(max-width: 860px)").matches ? "start" : "nearest" });
  speak();
  if (entering) own.title.focus({ preventScroll: true });
  requestAnimationFrame(place);
}

/** The words of the step with the numbers that are on the page now; some have to be asked for. */
async function speak() {
  const mine = ++own.round;
  const step = walk()[own.at];
  if (!step || !side()?.look) return;
  try {
    const words = await step.words(side());
    if (mine !== own.round || !own.open) return;
    own.words.textContent = words;
    place();
  } catch (error) {
    complain(error);
  }
}

/** The light goes to the part the step speaks of, the card beside it where there is room. */
function place() {
  if (!own.open) return;
  const target = find(walk()[own.at]?.at);
  const [spot, card] = [find("#spot"), own.card];
  if (!target) return;
  const box = target.getBoundingClientRect();
  const gap = 8;
  spot.hidden = false;
  Object.assign(spot.style, { left: `${box.left - gap}px`, top: `${box.top - gap}px`, width: `${box.width + 2 * gap}px`, height: `${box.height + 2 * gap}px` });
  if (innerWidth <= 860) {
    Object.assign(card.style, { left: "", top: "" });
    return;
  }
  const { offsetWidth: w, offsetHeight: h } = card;
  const low = innerHeight - h - 24; // beside a view: below the image it speaks of
  const room = [[box.right + 22, walk()[own.at].low ? low : box.top], [box.left - w - 22, low], [box.left, box.bottom + 22], [box.left, box.top - h - 22]];
  const fits = ([x, y], i) => x >= 8 && x + w <= innerWidth - 8 && (i < 2 || (y >= 8 && y + h <= innerHeight - 8));
  const [x, y] = room.find(fits) ?? [innerWidth - w - 24, innerHeight - h - 24];
  card.style.left = `${Math.max(8, Math.min(x, innerWidth - w - 8))}px`;
  card.style.top = `${Math.max(8, Math.min(y, innerHeight - h - 16))}px`;
}

