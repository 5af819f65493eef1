// Colors: the three directions in which tokens differ most, as red, green and blue. Like tokens have like colors.

import { make } from "/static/dom.js";
import { ask, isStale, peek } from "./looks.js";
import { complain } from "/static/said.js";
import { paintCells } from "/static/scales.js";
import { afterLayers, colorLayer, colorLayers, colorRest } from "./shown.js";
import { change, gridOf } from "./state.js";
import { capital } from "/static/words.js";

export const colors = { id: "colors", words: "Colors", hint: "Tokens as colors", able: ({ layers }) => layers > 0, build };

function build() {
  const note = make("p", {
    class: "soft note",
    text: "First, second and third principal component of the tokens after a layer, as red, green and blue. Patches of like color are alike to the model; colors of two layers cannot be compared.",
  });
  const row = make("div", { class: "color-row" });
  const own = { key: "", panes: [] };
  return { box: make("div", {}, make("h3", { text: "Tokens as colors" }), note, row), refresh };

  function refresh(one) {
    const key = `${one.model.id}|${one.look.layers}`;
    if (key !== own.key) hang(one, key);
    for (const { layer, canvas, button } of own.panes) {
      button.setAttribute("aria-pressed", String(layer === colorLayer(one.model)));
      const rest = colorRest(one.model, layer);
      const known = peek(one, rest);
      if (known) fill(one, canvas, known);
      else ask(one, rest).then((answer) => fill(one, canvas, answer), (error) => !isStale(error) && layer === colorLayer(one.model) && complain(error));
    }
  }

  function hang(one, key) {
    own.key = key;
    const shown = colorLayers(one.model);
    own.panes = shown.map((layer) => {
      const canvas = make("canvas", { width: 1, height: 1, "aria-hidden": "true" });
      canvas.style.aspectRatio = String(one.model.grid[1] / one.model.grid[0]);
      const button = make("button", { type: "button", class: "pane", "aria-label": capital(afterLayers(layer + 1)), onclick: () => change({ colorLayer: layer }) }, canvas, make("span", { class: "soft digits", text: layer }));
      return { layer, canvas, button };
    });
    row.replaceChildren(...own.panes.map(({ button }) => button));
  }

  function fill(one, canvas, { colors: found }) {
    const grid = gridOf(one);
    if (found.length === grid[0] * grid[1]) paintCells(canvas, found, grid);
  }
}
