// Training runs with their curves, read again every two seconds while this view is open.

import { curve, runs } from "./api.js";
import { lineChart } from "./chart.js";
import { find, make, refill } from "./dom.js";
import { complain } from "./said.js";
import { LINES } from "./scales.js";
import { fixed, GAP, number } from "./words.js";

const PAUSE = 2000;
const rows = new Map(); // run -> rows by epoch
const own = { open: false, round: 0, timer: 0, chosen: null, list: [], reached: true };

export function makeRuns() {
  own.table = make("div", { class: "run-list", role: "group", "aria-label": "Runs" });
  own.title = make("h2", { id: "run-title" });
  own.words = make("p", { class: "soft digits", id: "run-words" });
  own.charts = make("div", { class: "curves" });
  find("#training").append(
    make("section", { class: "card", "aria-label": "Runs" }, make("h2", { text: "Runs" }), own.table),
    make("section", { class: "card", "aria-labelledby": "run-title" }, own.title, own.words, own.charts));
  find("#runs").addEventListener("click", toggleRuns);
  new ResizeObserver(() => own.open && paint()).observe(own.charts);
}

export function toggleRuns() {
  own.open = !own.open;
  find("#main").hidden = own.open;
  find("#training").hidden = !own.open;
  find("#runs").setAttribute("aria-pressed", String(own.open));
  document.body.classList.toggle("at-runs", own.open);
  clearTimeout(own.timer);
  own.round += 1;
  if (own.open) poll(own.round);
}

export const closeRuns = () => own.open && toggleRuns();

async function poll(mine) {
  try {
    if (!document.hidden) {
      const found = await runs();
      if (mine !== own.round) return; // closed meanwhile, and perhaps opened again
      own.list = found;
      own.chosen = own.list.find(({ id }) => id === own.chosen)?.id ?? own.list[0]?.id ?? null;
      if (own.chosen !== null) await read(own.chosen);
      paint();
    }
    own.reached = true;
  } catch (error) {
    if (own.reached && mine === own.round) complain(error); // once, not every two seconds
    own.reached = false;
  }
  if (mine === own.round) own.timer = setTimeout(() => poll(mine), PAUSE);
}

async function read(id) {
  if (!rows.has(id)) rows.set(id, new Map());
  const known = rows.get(id);
  const since = known.size ? Math.max(...known.keys()) : 0;
  const answer = await curve(id, since);
  for (const row of answer.rows) known.set(row.epoch, row);
}

function paint() {
  refill(own.table, own.list.map(runRow));
  const run = own.list.find(({ id }) => id === own.chosen);
  own.title.textContent = run ? run.name : "No run yet";
  if (!run) {
    own.words.textContent = "Runs appear here as soon as `vitrail train` has started one.";
    own.charts.replaceChildren();
    return;
  }
  const history = [...(rows.get(run.id) ?? new Map()).values()].sort((a, b) => a.epoch - b.epoch);
  const details = [run.state, run.of ? `epoch ${run.epochs} of ${run.of}` : `epoch ${run.epochs}`];
  if (history.length) {
    const last = history.at(-1);
    if (Number.isFinite(last.val_loss)) details.push(`validation loss ${number(last.val_loss)}`);
    const { key, name, write, sign } = metric(run, history);
    const rank = (row) => (Number.isFinite(row[key]) ? sign * row[key] : -Infinity);
    const best = history.reduce((top, row) => (rank(row) > rank(top) ? row : top), history[0]);
    if (Number.isFinite(best[key])) details.push(`best validation ${name} ${write(best[key])}, epoch ${best.epoch}`);
  }
  if (run.score) details.push(run.score);
  own.words.textContent = details.join(" · ");
  own.charts.replaceChildren(...charts(history, run));
}

/** The score of a run as the server describes it: its column, its name, and how a value of it is written. */
function metric(run, history) {
  const found = run.metric;
  if (found) {
    const { short, factor, suffix, digits } = found;
    return { key: `val_${found.key}`, name: short, write: (value) => `${fixed(factor * value, digits)}${suffix.replace(" ", GAP)}`, share: factor === 100, sign: found.higher_is_better ? 1 : -1 };
  }
  const key = Object.keys(history.at(-1) ?? {}).find((name) => name.startsWith("val_") && name !== "val_loss") ?? "val_loss";
  return { key, name: key.replace("val_", ""), write: (value) => number(value), share: false, sign: 1 };
}

function runRow(run) {
  const done = run.of ? Math.min(1, run.epochs / run.of) : run.state === "finished" ? 1 : 0;
  const bar = make("i", { class: "bar-fill" });
  bar.style.width = `${100 * done}%`;
  const detail = [run.of ? `${run.epochs} / ${run.of} epochs` : `${run.epochs} epochs`, run.score, Number.isFinite(run.minutes) && run.minutes !== null ? `${number(run.minutes, 2)} min` : null];
  const choose = async () => {
    own.chosen = run.id;
    paint();
    try {
      await read(run.id);
    } catch (error) {
      complain(error);
    }
    paint();
  };
  return make("button", { type: "button", class: "run", "data-id": run.id, "data-state": run.state, "aria-pressed": String(run.id === own.chosen), onclick: choose },
    make("span", { class: "run-name", text: run.name }), make("span", { class: `state ${run.state}`, text: run.state }),
    make("span", { class: "soft digits", text: detail.filter(Boolean).join(" · ") }), make("span", { class: "track" }, bar));
}

function charts(history, run) {
  if (!history.length) return [make("p", { class: "soft", text: "No epoch has been finished yet." })];
  const last = Math.max(run.of || 0, history.at(-1).epoch, 2);
  const line = (name, key, color) => ({ name, color, points: history.map((row) => [row.epoch, row[key] ?? NaN]) });
  const { key, name, write, share } = metric(run, history);
  const specs = [
    ["Loss", [line("training", "train_loss", LINES[1]), line("validation", "val_loss", LINES[0])], (value) => number(value), true],
    [`Validation ${name}`, [line("", key, LINES[0])], write, false],
    ["Learning rate", [line("", "lr", LINES[5])], (value) => number(value), true],
  ];
  const columns = getComputedStyle(own.charts).gridTemplateColumns.split(" ").length;
  const width = Math.max(260, own.charts.clientWidth / columns - 12);
  return specs.flatMap(([title, series, format, fromZero]) => {
    const values = series.flatMap(({ points }) => points.map(([, value]) => value)).filter(Number.isFinite);
    if (!values.length) return [];
    const [low, high] = [fromZero ? Math.min(0, ...values) : Math.min(...values), Math.max(...values)];
    const room = high > low ? 0.06 * (high - low) : Math.abs(high) * 0.1 || 1;
    const chart = lineChart({
      width, height: 240, series, right: series[0].name ? 78 : 18, label: `${title} by epoch`,
      x: { low: 1, high: last, label: "epoch" },
      y: { low: fromZero ? low : low - room, high: fromZero || !share ? high + room : Math.min(1, high + room), format },
    });
    return [make("figure", { class: "drawing" }, make("figcaption", { text: title }), chart)];
  });
}
