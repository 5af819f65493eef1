// What the page says: to a screen reader in words, and to everybody in one friendly line.

import { find } from "./dom.js";

let timer = 0;
let last = "";
let news = "";
let alarm = "";
let leaving = 0;

/** For the live region: said once things rest, so that sweeping over patches does not chatter. What is said again is not repeated. */
export function say(words) {
  if (words === last) return;
  last = words;
  speak();
}

/** News that is said before whatever the map has to say. */
export function announce(words) {
  news = words;
  speak();
}

function speak() {
  clearTimeout(timer);
  timer = setTimeout(() => {
    find("#said").textContent = [alarm, news, last].filter(Boolean).join(" ");
    alarm = news = "";
  }, 120);
}

/** One line at the foot of the page that goes by itself; said first of all. */
export function toast(words) {
  const box = find("#toast");
  clearTimeout(leaving);
  box.textContent = words;
  box.hidden = false;
  alarm = words;
  speak();
  leaving = setTimeout(() => (box.hidden = true), Math.max(5000, 70 * words.length));
}

/** An error of the server, or of ours: the page goes on. */
export function complain(error) {
  if (error?.name === "AbortError") return;
  toast(error?.message || "Something went wrong.");
}
