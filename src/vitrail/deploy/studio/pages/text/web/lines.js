// The words of a sentence and of what was made of it, in lines. A word is a button: hovered, focused or pinned it is the one that looks.

import { make } from "/static/dom.js";
import { isNearlyEven, scaleOfShares } from "/static/scales.js";
import { percent } from "/static/words.js";

const SPECIAL = /^<(begin|end|pad|mask)>$/;
const FAINT = 0.005; // a share below this has no number: "0 %" under every word would say less
const BRIGHT = 0.55; // of the largest, from which on letters are dark

/** `react` is called when another word is chosen. The lines are "source" and "target": what is read, and what is written. */
export function makeLines(box, { react }) {
  const own = { lines: {}, chosen: null, pinned: false, look: null };

  const choose = (line, place) => {
    if (own.chosen?.line === line && own.chosen.place === place) return;
    own.chosen = { line, place };
    react();
  };

  const pin = (line, place) => {
    const same = own.pinned && own.chosen?.line === line && own.chosen.place === place;
    own.pinned = !same;
    own.chosen = { line, place };
    react();
  };

  function word(text, line, place, fresh) {
    const kind = `word${SPECIAL.test(text) ? " special" : ""}${fresh ? " new" : ""}`;
    return make("button", {
      type: "button", class: kind, "data-line": line, "data-place": place, "aria-pressed": "false",
      onpointerenter: (event) => event.pointerType === "mouse" && !own.pinned && choose(line, place),
      onfocus: (event) => event.target.matches(":focus-visible") && !own.pinned && choose(line, place),
      onclick: () => pin(line, place),
      onkeydown: walk,
    }, make("bdi", { text }), make("small"));
  }

  function walk(event) {
    const step = { ArrowRight: "nextElementSibling", ArrowLeft: "previousElementSibling" }[event.key];
    if (event.key === "Escape" && own.pinned) {
      own.pinned = false;
      react();
    }
    if (!step) return;
    event.preventDefault();
    event.currentTarget[step]?.focus();
  }

  const line = (name, title, words, fresh = () => false) => {
    const row = make("div", { class: "line", role: "group", "aria-label": title, dir: "auto", "data-line": name });
    own.lines[name] = words.map((text, place) => word(text, name, place, fresh(place)));
    row.append(...own.lines[name]);
    return [make("h2", { text: title }), row];
  };

  function show(look, { writes, form }) {
    Object.assign(own, { look, lines: {}, pinned: false, offset: look.read[0] === "<begin>" ? 1 : 0 });
    own.scale = make("p", { class: "light-scale soft digits", hidden: true }, make("span", { text: "0" }), make("i"), make("span", { class: "end" }));
    const rows = [];
    if (look.source.length) rows.push(...line("source", form.source, look.source));
    if (writes === "another") rows.push(...line("target", form.target, own.offset ? [look.read[0], ...look.written] : look.written));
    if (writes === "on") rows.push(...line("target", form.target, look.read, (place) => place >= look.given));
    box.replaceChildren(...rows, own.scale);
    const last = (own.lines.target ?? own.lines.source).length - 1;
    own.chosen = own.lines.target ? { line: "target", place: Math.min(writes === "on" ? last : own.offset, last) } : { line: "source", place: 0 };
  }

  /** Which attention is asked of which query, or null where the chosen word has none; `targetKind` is what written words look at. */
  function question(targetKind) {
    const { look, chosen } = own;
    if (!chosen) return null;
    const words = own.lines[chosen.line].map((button) => button.firstChild.textContent);
    const asker = words[chosen.place];
    if (chosen.line === "source") return look.kinds.encoder ? { kind: "encoder", query: chosen.place, keys: "source", asker, words } : null;
    if (targetKind === "cross") {
      const query = chosen.place - own.offset;
      return look.kinds.cross && query >= 0 ? { kind: "cross", query, keys: "source", asker, words: look.source } : null;
    }
    const able = look.kinds.decoder && chosen.place < look.read.length; // <end> is written, and never read
    return able ? { kind: "decoder", query: chosen.place, keys: "target", asker, words: words.slice(0, look.read.length) } : null;
  }

  function dark() {
    for (const button of Object.values(own.lines).flat()) {
      button.style.removeProperty("--share");
      button.lastChild.textContent = "";
      button.classList.remove("bright");
      delete button.dataset.weight;
    }
    if (own.scale) own.scale.hidden = true;
    mark();
  }

  function mark() {
    for (const [name, buttons] of Object.entries(own.lines)) {
      buttons.forEach((button, place) => {
        const here = own.chosen?.line === name && own.chosen.place === place;
        button.classList.toggle("chosen", here);
        button.setAttribute("aria-pressed", String(here && own.pinned));
      });
    }
  }

  function light(asked, weights) {
    dark();
    const scale = scaleOfShares(weights);
    weights.forEach((weight, place) => {
      const button = own.lines[asked.keys][place];
      const share = (scale.flat ?? weight) / scale.high;
      button.style.setProperty("--share", String(share));
      button.dataset.weight = String(weight);
      button.classList.toggle("bright", share >= BRIGHT);
      button.lastChild.textContent = weight >= FAINT ? percent(weight) : "";
    });
    own.scale.hidden = false;
    own.scale.lastChild.textContent = `${percent(scale.high)} of its attention; an even share would be ${percent(1 / weights.length)}${isNearlyEven(scale) ? "; nearly even" : ""}`;
  }

  return { show, question, light, dark };
}
