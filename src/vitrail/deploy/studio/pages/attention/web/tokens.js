// A patch becomes a token: its pixels, the numbers they are projected to, and the numbers that tell its place.

import { make } from "/static/dom.js";
import { crop } from "./crops.js";
import { follow } from "./looks.js";
import { paintVector, scaleOf } from "/static/scales.js";
import { cellAt, chosenCell, gridOf } from "./state.js";
import { capital, count, number, place } from "/static/words.js";

export const tokens = { id: "token", words: "Token", hint: "The numbers that a patch becomes", able: ({ attention, lens }) => attention || lens, build };

/** The patch whose token is shown: the chosen one, or the middle of the image. */
export const tokenCell = (one) => chosenCell(one) ?? cellAt(one, { u: 0.5, v: 0.5 });

/** Who turns a pane into numbers: weights for its own pixels, or layers that see beyond it. */
export function reader({ tokenizer, patch }) {
  if (tokenizer === "patch" || (tokenizer === undefined && patch)) return "weights";
  return tokenizer ? "convolutions" : "the first layers";
}

function build() {
  const title = make("h3");
  const pixels = make("div", { class: "pixels" });
  const strips = make("div", { class: "strips" });
  const own = {};
  return { box: make("div", {}, title, make("div", { class: "becoming" }, pixels, strips)), refresh };

  function refresh(one) {
    const cell = tokenCell(one);
    title.textContent = `${capital(place(cell, gridOf(one)))} becomes a token`;
    follow(own, one, `tokens?query=${cell}`, (answer) => paint(one, cell, answer));
  }

  function paint(one, cell, { embedding, position, width }) {
    const { patch, channels } = one.model;
    const size = patch ? `${patch[0]} × ${patch[1]} pixels${channels > 1 ? `, ${channels} colors` : ""}` : "pixels";
    const alone = reader(one.model) === "weights"; // its pixels and no others
    const values = alone && patch ? ` = ${count(patch[0] * patch[1] * (channels || 1), "number")}` : ", read with what surrounds them";
    pixels.replaceChildren(crop(one, cell, 120), make("p", { class: "soft note", text: size + values }));
    const how = alone ? "times learned weights" : `${reader(one.model)} read the pane and its surroundings`;
    const parts = [strip("The patch as numbers", embedding, `${how}: ${count(width ?? embedding.length, "number")}${width > embedding.length ? `, the first ${embedding.length} shown` : ""}`)];
    if (position) {
      parts.push(strip("Its place as numbers", position, "learned or computed; the same for every image"));
      parts.push(strip("The token: their sum", embedding.map((value, i) => value + position[i]), "this enters the first layer"));
    } else parts.push(make("p", { class: "soft note", text: `Nothing is added for its place: “${one.model.position}” positions act elsewhere, or nowhere.` }));
    strips.replaceChildren(...parts);
  }
}

function strip(name, values, words) {
  const canvas = make("canvas", { class: "strip", "aria-hidden": "true" });
  const scale = scaleOf(values, { signed: true });
  const columns = values.length > 128 ? Math.ceil(values.length / Math.ceil(values.length / 64)) : Math.min(values.length, 64);
  paintVector(canvas, values, scale, columns);
  canvas.style.aspectRatio = `${columns} / ${Math.ceil(values.length / columns) * 1.6}`;
  const first = values.slice(0, 4).map((value) => number(value)).join(", ");
  return make("div", { class: "strip-box" },
    make("p", {}, make("strong", { text: name }), " ", make("span", { class: "soft", text: words })),
    canvas,
    make("p", { class: "soft digits note", text: `${first}, …   colors from ${number(scale.low)} to ${number(scale.high)}` }));
}
