// What the model says: bars, with a mark where they stood before the brush touched the image.

import { find, make } from "/static/dom.js";
import { state, watch } from "./state.js";
import { count, fixed, number, percent } from "/static/words.js";

const FEW = 5;
const columns = [];
let all = false;

export function makePredictions() {
  const heads = make("div", { class: "head" }, make("h2", { text: "Prediction" }), make("span", { class: "soft digits", id: "pass" }));
  const body = make("div", { class: "answers" });
  const more = make("button", { type: "button", class: "quiet", id: "more", onclick: () => { all = !all; refresh(body, more); } });
  find("#predictions").append(heads, make("p", { class: "truth", hidden: true }), body, more);
  watch(["version", "sides", "active"], () => refresh(body, more));
}

function refresh(body, more) {
  while (columns.length > state.sides.length) columns.pop().box.remove();
  while (columns.length < state.sides.length) {
    const [title, list, note] = [make("h3"), make("ol", { class: "bars" }), make("p", { class: "soft note" })];
    columns.push({ box: make("div", { class: "answer" }, title, list, note), title, list, note, rows: new Map(), model: null });
    body.append(columns.at(-1).box);
  }
  state.sides.forEach((one, i) => fill(columns[i], one));
  const most = Math.max(0, ...state.sides.map((one) => one.look?.predictions.length ?? 0));
  more.hidden = most <= FEW;
  more.textContent = all ? "Show the first five" : `Show all ${most}`;
  more.setAttribute("aria-expanded", String(all));
  const names = trueClasses(state.sides[state.active]?.model);
  find(".truth").hidden = names.length === 0;
  find(".truth").replaceChildren(`True class${names.length > 1 ? "es" : ""}: `, make("b", { text: names.join(", ") }));
  find("#pass").textContent = state.sides.every(({ look }) => look) ? state.sides.map(({ look }) => `${number(look.ms, 2)} ms`).join(" · ") : "";
  find("#pass").title = "Time of the pass through the model";
  body.classList.toggle("two", state.sides.length > 1);
  find("#predictions").hidden = state.sides.length > 0 && state.sides.every(({ model }) => !model.labels.length); // a backbone says nothing
}

function fill(column, one) {
  const { list, rows } = column;
  column.title.hidden = state.sides.length < 2;
  column.title.textContent = one.model.name;
  column.box.classList.toggle("running", Boolean(one.running));
  if (column.model !== one.model) {
    rows.clear();
    list.replaceChildren();
    column.model = one.model;
  }
  if (!one.look) return;
  const shown = [...one.look.predictions].sort((a, b) => b.score - a.score).slice(0, all ? undefined : FEW);
  const names = new Set(shown.map(keyOf));
  const truth = trueClasses(one.model);
  for (const [key, row] of rows) {
    if (names.has(key)) continue;
    row.item.remove();
    rows.delete(key);
  }
  shown.forEach((answer, i) => {
    const [key, { label, score }] = [keyOf(answer), answer];
    if (!rows.has(key)) rows.set(key, makeRow(label));
    const row = rows.get(key);
    const before = one.before?.scores.get(key);
    row.bar.style.width = `${100 * score}%`;
    row.score.textContent = percent(score);
    row.item.classList.toggle("first", i === 0);
    row.item.classList.toggle("true", truth.includes(label));
    row.ghost.hidden = !one.touched || before === undefined;
    if (before !== undefined) row.ghost.style.left = `${100 * before}%`;
    const moved = one.touched && before !== undefined ? 100 * (score - before) : 0;
    row.moved.textContent = Math.abs(moved) >= 0.05 ? `${moved > 0 ? "+" : ""}${fixed(moved, 1)}` : "";
    row.moved.title = "points of a percent since the untouched image";
    if (list.children[i] !== row.item) list.insertBefore(row.item, list.children[i] ?? null);
  });
  list.classList.toggle("touched", Boolean(one.touched));
  column.note.textContent = describe(one);
  column.note.hidden = column.note.textContent === "";
}

/** What a sample of the run's own data is labelled as; empty for a person's own image, and where a model has no such classes. */
function trueClasses(model) {
  const { label } = state.image ?? {};
  if (!label || !model?.labels.length) return [];
  const names = model.multi_label ? label.split(", ") : [label];
  return names.filter((name) => model.labels.includes(name));
}

const keyOf = ({ index, label }) => index ?? label; // two classes may have one name

function makeRow(label) {
  const bar = make("i", { class: "bar-fill" });
  const ghost = make("i", { class: "ghost", hidden: true });
  const [score, moved] = [make("b", { class: "digits score" }), make("span", { class: "digits moved soft" })];
  const item = make("li", { "data-label": label }, make("span", { class: "label", text: label, title: label }), make("span", { class: "track" }, bar, ghost), score, moved);
  return { item, bar, ghost, score, moved };
}

function describe(one) {
  const details = [];
  const { erased, order } = one.seenFor; // of the pass whose answer stands here, not of the brush, which may be ahead
  if (erased.length) details.push(`${count(erased.length, "patch", "patches")} erased (filled with the mean color)`);
  if (order) details.push("patches shuffled");
  return details.length ? `${details.join(", ")}; the marks show the untouched image.` : "";
}
