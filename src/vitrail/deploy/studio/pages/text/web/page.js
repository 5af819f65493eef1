// The page of models of words wakes up: models, a sentence to type, what is written, and where each word looks.

import { actionAddress, get, post } from "/static/api.js";
import { find } from "/static/dom.js";
import { makeLines } from "./lines.js";
import { makeLooking } from "./looking.js";
import { openPage, size } from "/static/pages.js";
import { complain, toast } from "/static/said.js";
import { count } from "/static/words.js";

const PAUSE = 600; // milliseconds without a key after which a sentence counts as typed
const own = { model: null, look: null, matrices: new Map(), seed: 0, asked: "", flight: null, timer: 0 };

function furnish() {
  own.looking = makeLooking(find("#looking"), { react: light });
  own.lines = makeLines(find("#sentences"), { react: light });
  makeForm();
}

function makeForm() {
  const text = find("#text");
  find("#asking").addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    ask();
  });
  text.addEventListener("input", () => {
    clearTimeout(own.timer);
    own.timer = setTimeout(() => text.value.trim() && text.value !== own.asked && ask(), PAUSE);
  });
  find("#another").addEventListener("click", () => ask(own.seed + 1));
}

function useModel(model) {
  own.model = model;
  const { label, go, hint } = model.form;
  find("#text-label").textContent = label;
  find("#text").placeholder = hint;
  find("#go").textContent = go;
  find("#another").hidden = model.writes !== "on";
  for (const id of ["#sentences", "#looking"]) find(id).hidden = true;
  own.look = null;
  own.looking.use(model);
  if (find("#text").value.trim()) ask();
}

function facts(model) {
  const details = Object.entries(model.kinds).map(([kind, [layers, heads]]) => `${kind === "cross" ? "decoder to source" : kind}: ${count(layers, "layer")} × ${count(heads, "head")}`);
  details.push(`${count(model.vocabulary, "subword")}`);
  if (!model.attention) details.push("its attention cannot be shown");
  return [...details, ...size(model)];
}

/** One sentence through the model; while it runs, a newer wish takes its place. */
async function ask(seed = 0) {
  clearTimeout(own.timer);
  if (!find("#text").value.trim() && own.model.writes !== "on") return toast("Type a sentence first.");
  own.flight?.abort();
  const flight = (own.flight = new AbortController());
  const [model, text] = [own.model, find("#text").value];
  Object.assign(own, { asked: text, seed });
  find("#sentences").setAttribute("aria-busy", "true");
  try {
    const look = await post(actionAddress(model, "read"), { model: model.id, text, seed }, flight.signal);
    if (flight !== own.flight) return;
    Object.assign(own, { look, matrices: new Map() });
    find("#took").textContent = `${look.ms < 10 ? look.ms.toFixed(1) : Math.round(look.ms)} ms`;
    find("#notes").textContent = look.notes.join(" ");
    find("#notes").hidden = !look.notes.length;
    find("#sentences").hidden = false;
    find("#looking").hidden = !Object.keys(look.kinds).length;
    own.looking.show(look);
    own.lines.show(look, model);
    await light();
  } catch (error) {
    if (flight === own.flight) complain(error);
  } finally {
    if (flight === own.flight) find("#sentences").removeAttribute("aria-busy");
  }
}

/** Lights the words that the chosen one looks at, by the kind, layer and head that are chosen beside them. */
async function light() {
  const { look } = own;
  if (!look) return;
  const asked = own.lines.question(own.looking.targetKind());
  own.looking.follow(asked);
  if (!asked) {
    own.lines.dark();
    return;
  }
  const { layer, head } = own.looking.choice(asked.kind);
  const key = `${asked.kind}|${layer}|${head}`;
  if (!own.matrices.has(key)) own.matrices.set(key, get(actionAddress(own.model, "attention", { look: look.id, kind: asked.kind, layer, head })));
  try {
    const { weights } = await own.matrices.get(key);
    const now = own.lines.question(own.looking.targetKind());
    if (look !== own.look || now?.kind !== asked.kind || now.query !== asked.query) return; // another word has been chosen meanwhile
    own.lines.light(asked, weights[asked.query]);
    own.looking.tell(asked, weights[asked.query], layer, head);
  } catch (error) {
    own.matrices.delete(key);
    if (error.status === 410 && look === own.look) return ask(own.seed); // the server forgot the sentence
    complain(error);
  }
}

openPage({ furnish, use: useModel, facts });
