// The views as tabs. A view is {id, words, able(model), build() -> {box, refresh}}; only the one in front works.

import { find, make } from "/static/dom.js";
import { attention } from "./attention.js";
import { colors } from "./colors.js";
import { heads } from "./heads.js";
import { lens } from "./lens.js";
import { positions } from "./positions.js";
import { steps } from "./steps.js";
import { tokens } from "./tokens.js";
import { change, side, state, watch } from "./state.js";

const VIEWS = [tokens, positions, attention, steps, heads, lens, colors];
const built = new Map();
const tabs = new Map();

export function makeViews() {
  const list = find("#tabs");
  for (const view of VIEWS) {
    const tab = make("button", { type: "button", role: "tab", id: `tab-${view.id}`, "aria-controls": "view", text: view.words, onclick: () => change({ tab: view.id }) });
    tabs.set(view.id, tab);
    list.append(tab);
  }
  list.addEventListener("keydown", (event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1, Home: -99, End: 99 }[event.key];
    if (!move) return;
    event.preventDefault();
    event.stopPropagation();
    const able = VIEWS.filter(({ id }) => !tabs.get(id).disabled);
    const at = able.findIndex(({ id }) => id === state.tab);
    const next = Math.abs(move) > 9 ? (move < 0 ? 0 : able.length - 1) : (at + move + able.length) % able.length;
    change({ tab: able[next].id });
    tabs.get(able[next].id).focus();
  });
  watch(Object.keys(state), (changed) => refresh(changed));
}

function refresh(changed) {
  const one = side();
  if (!one) return;
  for (const view of VIEWS) {
    const tab = tabs.get(view.id);
    tab.disabled = !view.able(one.model);
    tab.title = tab.disabled ? `${one.model.architecture} has nothing to show here` : view.hint;
    tab.setAttribute("aria-selected", String(view.id === state.tab));
    tab.tabIndex = view.id === state.tab ? 0 : -1;
  }
  const view = VIEWS.find(({ id }) => id === state.tab);
  if (!view.able(one.model)) {
    const other = VIEWS.find(({ able }) => able(one.model));
    if (other) change({ tab: other.id });
    return;
  }
  const panel = find("#view");
  if (panel.dataset.view !== view.id || !built.has(view.id)) {
    if (!built.has(view.id)) built.set(view.id, view.build());
    panel.replaceChildren(built.get(view.id).box);
    panel.dataset.view = view.id;
    panel.setAttribute("aria-labelledby", `tab-${view.id}`);
    const tab = tabs.get(view.id);
    const list = find("#tabs");
    list.scrollTo({ left: tab.offsetLeft - (list.clientWidth - tab.offsetWidth) / 2 });
  }
  if (one.look) built.get(view.id).refresh(one, changed);
}
