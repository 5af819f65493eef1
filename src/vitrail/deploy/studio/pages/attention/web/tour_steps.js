// What the tour says: image, patches, tokens, position, attention, six steps, heads, layers, lens, prediction, brush.

import { ask } from "./looks.js";
import { attentionRest, comparedCell, similarityRest, stepsHead, stepsQuery } from "./shown.js";
import { cellAt, change, gridOf, headOf, layerOf, pointOf, state } from "./state.js";
import { stepsRest } from "./steps.js";
import { reader, tokenCell } from "./tokens.js";
import { asker, capital, count, headName, largest, number, percent, place } from "/static/words.js";

const attends = ({ attention }) => attention;

/** A patch to follow through the tour: the pinned one, else the one with the most contrast to the middle of the image. */
function follow(one) {
  if (state.pinned) return {};
  const [rows, columns] = gridOf(one);
  return { pinned: pointOf(one, Math.floor((rows - 1) / 2) * columns + Math.floor((columns - 1) / 2)) };
}

const cells = (one) => gridOf(one)[0] * gridOf(one)[1];

export const STEPS = [
  {
    title: "An image", at: "#stages",
    prepare: () => change({ tab: "token", pinned: null }),
    words({ model }) {
      const [h, w] = model.image_size;
      const numbers = count(h * w * (model.channels || 1), "number");
      return `To ${model.name} this image is ${h} × ${w} pixels: ${numbers}, nothing more. ${model.labels.length ? `From them it will choose one of ${count(model.labels.length, "name")}.` : "It has learned from images without names."} Let us follow it inside.`;
    },
  },
  {
    title: "Cut into panes", at: "#stages",
    prepare: (one) => change({ tab: "token", ...follow(one) }),
    words(one) {
      const [rows, columns] = gridOf(one);
      const size = one.model.patch ? ` of ${one.model.patch[0]} × ${one.model.patch[1]} pixels` : "";
      return `The image becomes ${rows} × ${columns} = ${rows * columns} patches${size}, like the panes of a window. We follow the outlined one, ${place(tokenCell(one), [rows, columns])}. Point at another pane and the numbers change with you.`;
    },
  },
  {
    title: "A patch becomes a token", at: "#views", able: ({ attention, lens }) => attention || lens,
    prepare: (one) => change({ tab: "token", ...follow(one) }),
    async words(one) {
      const { embedding, width } = await ask(one, `tokens?query=${tokenCell(one)}`);
      const how = reader(one.model) === "weights" ? "Learned weights turn its pixels" : `${capital(reader(one.model))} read the pane and its surroundings, and turn them`;
      return `${how} into a token of ${count(width ?? embedding.length, "number")}. The first are ${embedding.slice(0, 3).map((value) => number(value)).join(", ")}. From here on the model works with tokens, not with pixels.`;
    },
  },
  {
    title: "Where it was", at: "#stages", able: ({ similarity }) => similarity,
    prepare: (one) => change({ tab: "position", ...follow(one) }),
    async words(one) {
      const cell = comparedCell(one);
      const { cells: found } = await ask(one, similarityRest(one));
      const others = found.map((value, i) => (i === cell ? -Infinity : value));
      const top = largest(others);
      return `A heap of panes is no image: the model must know where each one was. Bright panes have a position like that of ${place(cell, gridOf(one))}; the most alike is ${place(top, gridOf(one))}, with ${number(found[top])}.`;
    },
  },
  {
    title: "Attention", at: "#stages", able: attends,
    prepare: (one) => change({ tab: "attention", method: "attention", head: "mean", layer: 0, ...follow(one) }),
    async words(one) {
      const cell = cellAt(one, state.hovered ?? state.pinned) ?? tokenCell(one);
      const { cells: found } = await ask(one, attentionRest(one, cell));
      const top = largest(found);
      return `Now tokens look at each other. In layer ${layerOf(one)}, ${place(cell, gridOf(one))} attends most to ${place(top, gridOf(one))}, with ${percent(found[top])}. If it looked at all alike, each pane would get ${percent(1 / cells(one))}. Move over the panes to ask others.`;
    },
  },
  {
    title: "Six steps", at: "#views", able: attends,
    prepare: (one) => change({ tab: "steps", head: 0, ...follow(one) }),
    async words(one) {
      const { weights, scores, scaled, query } = await ask(one, stepsRest(one));
      const top = largest(weights);
      return `This is all of the arithmetic. ${capital(asker(stepsQuery(one), gridOf(one)))} asks with ${query.length} numbers. Its best key scores ${number(scores[top])}, scaled ${number(scaled[top])}, and after softmax gets ${percent(weights[top])} in head ${stepsHead(one)}. Press Play to see one step after the other.`;
    },
  },
  {
    title: "Many heads", at: "#views", able: attends,
    prepare: (one) => change({ tab: "heads", ...follow(one) }),
    async words(one) {
      const query = cellAt(one, state.pinned) ?? tokenCell(one);
      const { maps } = await ask(one, `layers?query=${query}`);
      const tops = maps.flatMap((heads, layer) => heads.map((row, head) => ({ layer, head, share: row[largest(row)] })));
      const [sharp, even] = [tops.reduce((a, b) => (b.share > a.share ? b : a)), tops.reduce((a, b) => (b.share < a.share ? b : a))];
      return `Every layer does this ${count(one.look.heads, "time")} at once, each head in its own way: ${count(tops.length, "small window")} here. Layer ${sharp.layer}, head ${sharp.head} puts ${percent(sharp.share)} on one pane; layer ${even.layer}, head ${even.head} never more than ${percent(even.share)}. Press one to put it on the stage.`;
    },
  },
  {
    title: "Layer after layer", at: "#stages", able: attends,
    prepare: (one) => change({ tab: "attention", method: "attention", head: "mean", layer: one.look.layers - 1, ...follow(one) }),
    async words(one) {
      const cell = cellAt(one, state.hovered ?? state.pinned) ?? tokenCell(one);
      const [first, last] = await Promise.all([0, one.look.layers - 1].map((layer) => ask(one, attentionRest(one, cell, layer, headOf(one)))));
      const far = ({ distance_pixels: pixels }) => (Number.isFinite(pixels) && pixels !== null ? `${number(pixels)} pixels away` : `most at ${percent(Math.max(...first.cells))}`);
      return `The tokens pass through ${count(one.look.layers, "layer")}. In the first, ${place(cell, gridOf(one))} looks on average ${far(first)} (${headName(headOf(one))}); in the last, ${far(last)}. The keys [ and ] step through the layers.`;
    },
  },
  {
    title: "How the answer forms", at: "#views", able: ({ lens }) => lens,
    prepare: () => change({ tab: "lens", lensLayer: 1 }),
    async words(one) {
      const { whole, labels } = await ask(one, "lens");
      const said = (layer) => `${labels[largest(whole[layer])]} (${percent(Math.max(...whole[layer]))})`;
      const at = Math.min(state.lensLayer, whole.length - 1);
      return `Ask the model early: ${at === 0 ? "before any layer" : `after layer ${at - 1}`} it would say ${said(at)}, after the last ${said(whole.length - 1)}. The panes show what each patch alone would say. Draw the slider from left to right and watch the answer form.`;
    },
  },
  {
    title: "The prediction", at: "#predictions", able: ({ labels }) => labels.length > 0,
    prepare: (one) => change({ tab: "attention", pinned: null, lensLayer: one.model.layers }),
    words({ model, look }) {
      const [first, second] = look.predictions;
      const after = second ? `, then ${second.label} with ${percent(second.score)}` : "";
      const rest = model.pool === "class" ? "read from the class token" : model.pool === "mean" ? "read from the mean of all tokens" : "read from the tokens";
      return `The answer is ${rest}: ${first.label} with ${percent(first.score)}${after}. The pass took ${number(look.ms)} milliseconds. These are the model’s shares of belief, not a promise.`;
    },
  },
  {
    title: "Now take a pane away", at: ".left", low: true, able: ({ intervenes, labels }) => intervenes && labels.length > 0,
    prepare: () => change({ tab: "attention", pinned: null, tool: "erase" }),
    words(one) {
      const { label, score } = one.look.predictions[0];
      if (!one.erased.size) return `You hold the eraser: draw over the bright panes and watch the bars. It says ${label} with ${percent(score)} now. Does it still know without them?`;
      return `Without ${count(one.erased.size, "pane")} it says ${label} with ${percent(score)}; untouched it was ${one.before.best.label} with ${percent(one.before.best.score)}. Reset gives the image back. The studio is yours.`;
    },
  },
];
