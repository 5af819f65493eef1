// The legend of an answer: a row for each class, with its color and how much of it there is. One that is pressed is shown alone.

import { make } from "./dom.js";
import { css } from "./scales.js";

/** `react(index)` receives which class to show alone, or null. */
export function makeClasses(list, react) {
  const own = { rows: new Map(), only: null };

  function press(index) {
    own.only = index === own.only ? null : index;
    own.rows.forEach((button, other) => button.setAttribute("aria-pressed", String(other === own.only)));
    react(own.only);
  }

  return {
    /** Rows are {index, label, color, share, words, more}; a bar as long as `share` of the longest. */
    show(rows) {
      own.only = null;
      own.rows = new Map();
      const most = Math.max(...rows.map(({ share }) => share), 1e-9);
      list.replaceChildren(...rows.map(({ index, label, color, share, words, more }) => {
        const swatch = make("i", { class: "swatch", "aria-hidden": "true" });
        swatch.style.setProperty("--color", css(color));
        const fill = make("i", { class: "bar-fill" });
        fill.style.width = `${(100 * share) / most}%`;
        const button = make("button", { type: "button", class: "object", title: "Show this class alone", "data-index": index, "aria-pressed": "false", onclick: () => press(index) },
          swatch, make("span", { class: "label", text: label }), make("span", { class: "track" }, fill), make("b", { class: "digits", text: words }), make("span", { class: "soft digits where", text: more }));
        own.rows.set(index, button);
        return make("li", {}, button);
      }));
    },
  };
}
