// Self-attention in six steps with the real numbers of one query: query, keys, scores, scale, softmax, sum.

import { make, refill } from "/static/dom.js";
import { marking, tokenBadge } from "./crops.js";
import { follow } from "./looks.js";
import { BELOW_ABOVE, paintVector, scaleOf } from "/static/scales.js";
import { stepsHead, stepsQuery } from "./shown.js";
import { cellAt, gridOf, layerOf, state } from "./state.js";
import { asker, capital, fixed, number, percent, place } from "/static/words.js";

export const steps = { id: "steps", words: "Six steps", hint: "The arithmetic of attention", able: ({ attention }) => attention, build };
const ROWS = 7;
const NAMES = ["query", "keys", "score", "scale", "softmax", "sum"];

export const stepsRest = (one) => `steps?layer=${layerOf(one)}&head=${stepsHead(one)}&query=${stepsQuery(one)}`;

function build() {
  const title = make("h3");
  const chips = make("ol", { class: "chips" });
  const words = make("p", { class: "note step-words", id: "step-words" });
  const body = make("div", { class: "six" });
  const own = { step: 0, answer: null, playing: 0 };
  NAMES.forEach((name, i) => {
    const button = make("button", { type: "button", text: `${i + 1} ${name}`, onclick: () => emphasize(i + 1) });
    button.addEventListener("pointerenter", () => emphasize(i + 1));
    chips.append(make("li", {}, button));
  });
  const play = make("button", { type: "button", class: "quiet", text: "Play", id: "play-steps", onclick: () => (own.playing ? halt() : start()) });
  chips.append(make("li", {}, play));

  function emphasize(step) {
    own.step = step;
    body.dataset.step = step;
    [...chips.querySelectorAll("button:not(.quiet)")].forEach((button, i) => button.setAttribute("aria-pressed", String(i + 1 === step)));
    if (own.answer) words.textContent = tell(own.one, own.answer, step);
  }
  function start() {
    emphasize(1);
    play.textContent = "Stop";
    own.playing = setInterval(() => (own.step >= 6 || !body.isConnected ? halt() : emphasize(own.step + 1)), 1500);
  }
  function halt() {
    clearInterval(own.playing);
    own.playing = 0;
    play.textContent = "Play";
  }

  function refresh(one) {
    follow(own, one, stepsRest(one), (answer) => {
      const query = stepsQuery(one);
      title.textContent = `${capital(asker(query, gridOf(one)))} asks, layer ${layerOf(one)}, head ${stepsHead(one)}`;
      const hovered = cellAt(one, state.hovered);
      const drawn = [one.look.id, stepsRest(one), hovered, Boolean(one.seen)].join("|");
      Object.assign(own, { one, answer });
      if (own.drawn !== drawn) table(body, one, answer, hovered);
      own.drawn = drawn;
      emphasize(own.step || 1);
    });
  }
  return { box: make("div", {}, title, chips, words, body), refresh };
}

const scaleFactor = ({ scale, query }) => (scale ? (scale < 1 ? 1 / scale : scale) : Math.sqrt(query.length));

function tell(one, answer, step) {
  const { scores, scaled, weights, keys, query, values, output } = answer;
  const best = weights.reduce((top, value, i) => (value > weights[top] ? i : top), 0);
  const name = tokenName(one, answer, best);
  const divisor = number(scaleFactor(answer));
  const biased = Math.abs(scaled[best] - scores[best] / scaleFactor(answer)) > 2e-3 * (1 + Math.abs(scaled[best]));
  return [
    `The token that asks becomes a query of ${query.length} numbers: what it looks for.`,
    `Every token becomes a key of as many numbers: what it offers. There are ${keys.length} keys.`,
    `Query times key, summed: how well they fit. With ${name} that gives ${number(scores[best])}.`,
    `Divided by ${divisor} (the root of ${query.length}), so that scores do not grow with the width${biased ? ", plus what the positions say" : ""}: ${number(scores[best])} becomes ${number(scaled[best])}.`,
    `Softmax turns the scores into shares that sum to 1: ${number(scaled[best])} becomes ${percent(weights[best])}.`,
    `The values, each times its share, are summed: ${values.length} values become one output of ${output.length} numbers.`,
  ][step - 1];
}

/** Whether a layer's tokens are more than the cells: those of a group network stand on elements × a grid that may be finer. */
const isGroup = (one, { names }) => names.length > one.look.prefix + gridOf(one)[0] * gridOf(one)[1];

function tokenName(one, answer, token) {
  return token < one.look.prefix || isGroup(one, answer) ? answer.names[token] : place(token - one.look.prefix, gridOf(one));
}

/** The cell that a token stands on; null: none. The names of a group's tokens are "(element, row, column)". */
function standsOn(one, answer, token) {
  if (token < one.look.prefix) return null;
  if (!isGroup(one, answer)) return token - one.look.prefix;
  const [rows, columns] = gridOf(one);
  const [[row, column], [bottom, right]] = [answer.names[token], answer.names.at(-1)].map((name) => name.match(/\d+/g).slice(-2).map(Number));
  return Math.floor((row * rows) / (bottom + 1)) * columns + Math.floor((column * columns) / (right + 1));
}

function table(body, one, answer, hovered) {
  const { query, keys, scores, scaled, weights, values, output } = answer;
  const sorted = weights.map((_, i) => i).sort((a, b) => weights[b] - weights[a]);
  const under = hovered === null ? undefined : sorted.find((token) => standsOn(one, answer, token) === hovered);
  const order = (under === undefined ? sorted : [under, ...sorted.filter((token) => token !== under)]).slice(0, ROWS);
  const largest = Math.max(...weights);
  const within = (rows) => ({ ...scaleOf(rows.flat(), { signed: true }), colors: BELOW_ABOVE });
  const balanced = (scale) => ({ ...scale, low: -Math.max(Math.abs(scale.low), scale.high), high: Math.max(Math.abs(scale.low), scale.high) });
  const keyScale = balanced(within([query, ...order.map((i) => keys[i])]));
  const valueScale = balanced(within([output, ...order.map((i) => values[i])]));
  const head = make("tr", {}, ...[["token", 0], ["key", 2], ["score", 3], ["scaled", 4], ["share", 5], ["value", 6]].map(([text, step]) => make("th", { scope: "col", "data-step": step, text })));
  const rows = order.map((token, rank) => {
    const cell = standsOn(one, answer, token);
    const bar = make("i", { class: "light-fill" });
    bar.style.width = `${(100 * weights[token]) / largest}%`;
    const row = make("tr", { class: token === under ? "under" : null, "data-id": rank },
      make("th", { scope: "row" }, tokenBadge(one, cell, tokenName(one, answer, token))),
      make("td", { "data-step": 2 }, vector(keys[token], keyScale)),
      make("td", { "data-step": 3, class: "digits", text: fixed(scores[token]) }),
      make("td", { "data-step": 4, class: "digits", text: scaled[token] === null ? "–" : fixed(scaled[token]) }),
      make("td", { "data-step": 5, class: "share" }, make("span", { class: "track" }, bar), make("b", { class: "digits", text: percent(weights[token]) })),
      make("td", { "data-step": 6 }, vector(values[token], valueScale)));
    return cell === null ? row : marking(row, cell);
  });
  const rest = weights.length - order.length;
  const left = 1 - order.reduce((sum, token) => sum + weights[token], 0);
  refill(body, [
    make("div", { class: "ask", "data-step": 1 }, make("span", { text: "query" }), vector(query, keyScale)),
    make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows))),
    make("p", { class: "soft note digits", text: rest > 0 ? `and ${rest} more with ${percent(Math.max(0, left))} together · colors from ${number(keyScale.low)} to ${number(keyScale.high)}` : "" }),
    make("div", { class: "ask", "data-step": 6 }, make("span", { text: "output" }), vector(output, valueScale))]);
}

function vector(values, scale) {
  const canvas = make("canvas", { class: "vector", "aria-hidden": "true" });
  paintVector(canvas, values, scale);
  canvas.title = values.slice(0, 6).map((value) => number(value)).join(", ") + (values.length > 6 ? ", …" : "");
  return canvas;
}
