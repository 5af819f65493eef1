// What an action answered, whatever it is: a table of its values, its images, or a list of such.

import { postAny } from "./api.js";
import { make } from "./dom.js";
import { number } from "./words.js";

const isImage = (value) => typeof value === "string" && value.startsWith("data:image/");

/** Asks and fills `box`; returns the answer in words, or null where `current()` says that another was wished for meanwhile. */
export async function showResult(box, address, order, current) {
  const answer = await postAny(address, order);
  if (!current()) return null;
  box.replaceChildren(draw(answer));
  box.hidden = false;
  return box.innerText.replace(/\s+/g, " ").trim() || "The result is an image.";
}

function draw(value) {
  if (isImage(value)) return make("img", { src: value, alt: "Result" });
  if (Array.isArray(value) && value.some((part) => typeof part === "object" || isImage(part))) return make("div", {}, value.map(draw));
  if (value !== null && typeof value === "object" && !Array.isArray(value)) {
    return make("table", {}, Object.entries(value).map(([name, part]) => make("tr", {}, make("th", { scope: "row", text: name }), make("td", { class: "digits" }, draw(part)))));
  }
  return make("span", { text: words(value) });
}

function words(value) {
  if (Array.isArray(value)) return value.map(words).join(", ");
  return typeof value === "number" && !Number.isInteger(value) ? number(value) : String(value);
}
