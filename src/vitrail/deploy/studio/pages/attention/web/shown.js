// Which map lies over the image, and how its numbers are written. A wish is {rest, map(answer)}; a map is
// {cells, scale, title, where, words, tell(cell), facts, labels?, colors?}; an opaque one is of the model, not of the image.

import { actionAddress } from "/static/api.js";
import { isNearlyEven, scaleOf, scaleOfShares } from "/static/scales.js";
import { cellAt, chosenCell, gridOf, headOf, layerOf, nobody, state } from "./state.js";
import { asker, capital, headName, largest, layerNumber, number, percent, place } from "/static/words.js";

/** The question whose answer the stage of this side should show now; null: the bare image. */
export function wish(one) {
  if (!one.look) return null;
  if (state.tab === "token") return null;
  if (state.tab === "position") return one.model.similarity ? similarityWish(one) : null;
  if (state.tab === "colors") return one.model.layers ? colorWish(one) : null;
  if (state.tab === "lens") return one.model.lens ? lensWish(one) : null;
  if (state.tab === "steps" && one.model.attention) return attentionWish(one, stepsQuery(one), stepsHead(one));
  const cell = chosenCell(one);
  if (!one.model.attention || (cell === null && chosenMethod(one) !== "attention" && state.tab === "attention")) return methodWish(one);
  return attentionWish(one, cell ?? nobody(one));
}

/** Steps need one head and one query: the first head where a mean is chosen, the middle patch where nobody asks. */
export const stepsHead = (one) => (typeof headOf(one) === "number" ? headOf(one) : 0);
export function stepsQuery(one) {
  const who = cellAt(one, state.pinned) ?? nobody(one);
  return who === "received" ? cellAt(one, { u: 0.5, v: 0.5 }) : who;
}

export function attentionRest(one, query, layer = layerOf(one), head = headOf(one)) {
  return `attention?layer=${layer}&head=${head}&query=${query}`;
}

function attentionWish(one, query, head = headOf(one)) {
  const [grid, layer] = [gridOf(one), layerOf(one)];
  return {
    rest: attentionRest(one, query, layer, head),
    map(answer) {
      const { cells } = answer;
      const received = query === "received";
      const top = largest(cells);
      const who = asker(query, grid);
      const verb = received ? "receives most" : "attends most to";
      const said = received
        ? `${capital(place(top, grid))} receives most attention, ${percent(cells[top])}.`
        : `${capital(who)}: ${verb} ${place(top, grid)}, ${percent(cells[top])}.`;
      const scale = scaleOfShares(cells);
      const facts = [];
      const apart = one.look.prefix === 1 && one.model.pool === "class" ? "on the class token" : "on tokens that are no patch";
      if (answer.sum_prefix > 0) facts.push([apart, percent(answer.sum_prefix), "Share of the attention that goes to tokens that are no patch."]);
      if (Number.isFinite(answer.entropy_bits) && answer.entropy_bits !== null) {
        facts.push(["spread", `${number(answer.entropy_bits)} bits`, "Entropy of the weights: 0 is one patch only; all alike would be the logarithm of their number."]);
      }
      if (Number.isFinite(answer.distance_pixels) && answer.distance_pixels !== null) {
        facts.push(["mean distance", `${number(answer.distance_pixels)} px`, "How far away the attended patches lie, in pixels that the model reads."]);
      }
      return {
        cells, query, facts, scale, even: (1 - (answer.sum_prefix || 0)) / cells.length, format: percent, top,
        title: received ? "Attention received" : `Attention of ${who}`,
        where: `layer ${layerNumber(layer, one.look.layers)}, ${headName(head)}`,
        words: isNearlyEven(scale) ? `${said} Nearly even: no patch stands out.` : said,
        tell: (cell) => `${capital(place(cell, grid))}: ${percent(cells[cell])}`,
      };
    },
  };
}

/** The name of the chosen map: what a person has chosen, before that what the measurement recommends for the model. */
export const chosenMethod = ({ model }) => (state.method === "auto" ? model.default_method : state.method);

/** The method whose map is shown: the chosen one, or the recommended, or the first of a model that has no attention. */
export function methodOf({ model }) {
  const named = (wanted) => model.methods.find(({ name }) => name === wanted && name !== "attention");
  return named(chosenMethod({ model })) ?? named(model.default_method) ?? model.methods.find(({ name }) => name !== "attention");
}

export const methodRest = ({ name }) => `map?method=${encodeURIComponent(name)}`;

function methodWish(one) {
  const grid = gridOf(one);
  const known = methodOf(one);
  if (!known) return null;
  return {
    rest: methodRest(known),
    map({ cells, words }) {
      const top = largest(cells);
      const scale = scaleOfShares(cells);
      return {
        cells, query: null, facts: [], scale, even: 1 / cells.length, format: percent, top,
        title: capital(known.name), where: words ?? known.words,
        words: `${capital(known.name)}: ${isNearlyEven(scale) ? "nearly even, " : ""}most on ${place(top, grid)}, ${percent(cells[top])}.`,
        tell: (cell) => `${capital(place(cell, grid))}: ${percent(cells[cell])}`,
      };
    },
  };
}

/** The place whose position is compared: the chosen patch, or the middle of the image. */
export function comparedCell(one) {
  return chosenCell(one) ?? cellAt(one, { u: 0.5, v: 0.5 });
}

export const similarityRest = (one) => actionAddress(one.model, "similarity", { model: one.model.id, cell: comparedCell(one) });

function similarityWish(one) {
  const [grid, cell] = [gridOf(one), comparedCell(one)];
  return {
    rest: similarityRest(one),
    map({ cells, words, limit }) {
      const others = Float64Array.from(cells);
      others[cell] = -Infinity;
      const top = largest(others);
      return {
        cells, query: cell, facts: [], opaque: true, scale: scaleOf(limit ? [-limit, limit] : cells, { signed: true }), even: null, format: number, top: cell,
        title: `Position of ${place(cell, grid)} against all others`, where: words,
        words: `The position of ${place(cell, grid)} is most like ${place(top, grid)}, ${number(cells[top])}.`,
        tell: (other) => `${capital(place(other, grid))}: ${number(cells[other])}`,
      };
    },
  };
}

/** What stands after so many layers have been passed. */
export const afterLayers = (passed) => (passed === 0 ? "before the first layer" : `after layer ${passed - 1}`);

/** Layers behind which tokens can be colored: all of a ViT, the last one of other models. */
export const colorLayers = (model) => Array.from({ length: model.layers }, (_, layer) => layer).filter((layer) => model.lens || layer === model.layers - 1);
export const colorLayer = (model) => (model.lens ? Math.max(0, Math.min(state.colorLayer, model.layers - 1)) : model.layers - 1);
export const colorRest = (model, layer) => `colors?layer=${layer === model.layers - 1 ? -1 : layer}`;

function colorWish(one) {
  const [grid, layer] = [gridOf(one), colorLayer(one.model)];
  return {
    rest: colorRest(one.model, layer),
    map: ({ colors }) => ({
      colors, opaque: true, cells: colors.map(() => 0), scale: null, facts: [], query: chosenCell(one), top: null,
      title: "Tokens as colors", where: afterLayers(layer + 1),
      words: `Tokens as colors, ${afterLayers(layer + 1)}.`,
      tell: (cell) => `${capital(place(cell, grid))}: red ${colors[cell][0]}, green ${colors[cell][1]}, blue ${colors[cell][2]}`,
    }),
  };
}

function lensWish(one) {
  const grid = gridOf(one);
  return {
    rest: "lens",
    map({ labels, patches_top: tops, patches_p: shares }) {
      const layer = Math.min(state.lensLayer, tops.length - 1);
      const [names, cells] = [tops[layer].map((at) => labels[at]), shares[layer]];
      const top = largest(cells);
      const cell = chosenCell(one) ?? top;
      return {
        cells, labels: names, query: chosenCell(one), facts: [], scale: { ...scaleOf(cells), high: 1 }, even: 1 / labels.length, format: percent, top,
        title: "What each patch would say", where: afterLayers(layer),
        words: `${capital(place(cell, grid))}, ${afterLayers(layer)}: ${names[cell]}, ${percent(cells[cell])}.`,
        tell: (other) => `${capital(place(other, grid))}: ${names[other]}, ${percent(cells[other])}`,
      };
    },
  };
}
