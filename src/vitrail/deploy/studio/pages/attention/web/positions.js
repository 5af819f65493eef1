// Position: how alike the place of the chosen patch is to every other place, before any image is seen.

import { make } from "/static/dom.js";
import { lineChart } from "/static/chart.js";
import { follow } from "./looks.js";
import { comparedCell, similarityRest } from "./shown.js";
import { gridOf } from "./state.js";
import { capital, number, place } from "/static/words.js";

export const positions = { id: "position", words: "Position", hint: "How the model tells places apart", able: ({ similarity }) => similarity, build };

function build() {
  const title = make("h3");
  const note = make("p", { class: "soft note" });
  const chart = make("div", { class: "drawing" });
  const own = {};
  new ResizeObserver(() => own.paint?.()).observe(chart);
  const box = make("div", {}, title, note, chart);
  return { box, refresh };

  function refresh(one) {
    const cell = comparedCell(one);
    title.textContent = `${capital(place(cell, gridOf(one)))} against its row and its column`;
    follow(own, one, similarityRest(one), (answer) => paint(one, cell, answer), (error) => (note.textContent = error.message));
  }

  function paint(one, cell, { cells, words }) {
    const [rows, columns] = gridOf(one);
    const [row, column] = [Math.floor(cell / columns), cell % columns];
    note.textContent = `${one.model.position ? `Scheme: ${one.model.position}. ` : ""}${words}`;
    const along = cells.slice(row * columns, (row + 1) * columns).map((value, i) => [i, value]);
    const down = Array.from({ length: rows }, (_, i) => [i, cells[i * columns + column]]);
    const values = [...along, ...down].map(([, value]) => value);
    own.paint = () => {
      const width = Math.max(260, Math.min(760, chart.clientWidth));
      if (chart.clientWidth === 0) return;
      chart.replaceChildren(lineChart({
        width, height: 210, series: [{ name: "row", points: along }, { name: "column", points: down, dashed: true }],
        x: { low: 0, high: Math.max(rows - 1, columns - 1, 1), label: "place along the row or column" },
        y: { low: Math.min(0, ...values), high: Math.max(...values, 1e-9), format: (value) => number(value) },
        label: `Similarity of ${place(cell, [rows, columns])} along its row and column`,
      }));
    };
    own.paint();
  }
}
