// Beside the sentence: which layer and head is shown, what written words look at, and the words that are looked at most.

import { choice, make, refill, slider } from "/static/dom.js";
import { say } from "/static/said.js";
import { headName, layerNumber, percent } from "/static/words.js";

const KINDS = { encoder: "Self-attention of the encoder", decoder: "Self-attention of the decoder", cross: "Attention of the decoder to the source" };
const MOST = 6;

/** `react` is called when another layer, head or kind is chosen. Every kind of attention keeps its own layer and head. */
export function makeLooking(box, { react }) {
  const own = { model: null, chosen: {}, target: null, key: "" };
  const title = make("h2");
  const where = make("p", { class: "soft note" });
  const controls = make("div", { class: "controls" });
  const list = make("ol", { class: "most" });
  box.append(make("div", {}, title, where), controls, list);

  const set = (kind, change) => {
    Object.assign(own.chosen[kind], change);
    own.key = "";
    react();
  };

  function use(model) {
    const { kinds } = model;
    Object.assign(own, { model, key: "", chosen: {}, target: kinds.cross ? "cross" : kinds.decoder ? "decoder" : null });
    for (const [kind, [layers]] of Object.entries(kinds)) own.chosen[kind] = { layer: layers - 1, head: "mean", free: true };
  }

  /** The layer that aligns best is shown first, until a person chooses another. */
  function show(look) {
    if (own.chosen.cross?.free && look.aligning !== null) own.chosen.cross.layer = look.aligning;
    own.key = "";
  }

  function furnish(kind) {
    const [layers, heads] = own.model.kinds[kind];
    const { layer, head } = own.chosen[kind];
    const parts = [];
    if (own.model.kinds.cross && own.model.kinds.decoder) {
      const looks = choice("Written words look at", [["cross", "source"], ["decoder", "words before"]], own.target, (target) => {
        own.target = target;
        own.key = "";
        react();
      }, "targets");
      parts.push(make("div", { class: "field" }, make("span", { text: "Written" }), looks.box));
    }
    if (layers > 1) parts.push(slider("Layer", { id: "layer", min: 0, max: layers - 1, value: layer, words: (n) => layerNumber(n, layers), react: (n) => set(kind, { layer: n, free: false }) }).box);
    if (heads > 1) {
      const names = [["mean", "mean", "Mean over heads"], ...Array.from({ length: heads }, (_, i) => [i, String(i), `Head ${i}`])];
      parts.push(make("div", { class: "field" }, make("span", { text: "Head" }), choice("Head", names, head, (next) => set(kind, { head: next }), "heads").box));
    }
    keepFocus(() => controls.replaceChildren(...parts));
  }

  /** The same control has the focus again after the controls are made anew. */
  function keepFocus(renew) {
    const active = controls.contains(document.activeElement) ? document.activeElement : null;
    const name = active && (active.id ? `#${active.id}` : `[data-value="${active.dataset.value}"]`);
    renew();
    if (name) controls.querySelector(name)?.focus({ preventScroll: true });
  }

  function follow(asked) {
    const kind = asked?.kind ?? own.target ?? Object.keys(own.model.kinds)[0];
    if (!kind) return;
    if (own.key !== kind) {
      own.key = kind;
      furnish(kind);
    }
    if (asked) return;
    title.textContent = "This word looks at nothing here";
    where.textContent = "Choose another word, or what written words look at.";
    list.replaceChildren();
  }

  function tell(asked, weights, layer, head) {
    const order = Array.from(weights.keys()).sort((a, b) => weights[b] - weights[a]);
    const [layers, heads] = own.model.kinds[asked.kind];
    title.replaceChildren(asked.kind === "cross" ? "To write “" : "“", make("bdi", { text: asked.asker }), asked.kind === "cross" ? "” it looks at" : "” looks at");
    where.textContent = `${KINDS[asked.kind]}${layers > 1 ? `, layer ${layer}` : ""}${heads > 1 ? `, ${headName(head)}` : ""}`;
    refill(list, order.slice(0, MOST).map((place) => {
      const bar = make("i", { class: "light-fill" });
      bar.style.width = `${(100 * weights[place]) / (weights[order[0]] || 1)}%`;
      return make("li", {}, make("bdi", { text: asked.words[place] }), make("span", { class: "track" }, bar), make("b", { class: "digits", text: percent(weights[place]) }));
    }));
    say(`“${asked.asker}” looks most at “${asked.words[order[0]]}”, ${percent(weights[order[0]])}.`);
  }

  return { use, show, follow, tell, targetKind: () => own.target, choice: (kind) => own.chosen[kind] };
}
