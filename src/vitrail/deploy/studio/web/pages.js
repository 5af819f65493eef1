// Which page a model belongs to: the server tells, and the choosers lead from one to the other.

import { models, tasks } from "./api.js";
import { find, make } from "./dom.js";
import { makeRuns } from "./runs.js";
import { complain } from "./said.js";
import { makeTheme } from "./theme.js";

export const pageOf = ({ page }) => page;

export const visit = (model) => (location.href = `${pageOf(model)}#${model.id}`);

/** The models of `page` by themselves, those of other pages in groups under their names. */
export async function fillChooser(select, models, page) {
  for (const { address, title } of (await tasks()).pages) {
    const options = models.filter((model) => pageOf(model) === address).map(({ id, name }) => make("option", { value: id, text: name }));
    if (address === page) select.prepend(...options);
    else if (options.length) select.append(make("optgroup", { label: title }, options));
  }
}

/** Whether another page was meant: by the address, or because the newest model is not of this one. If so, the browser is sent there. */
export function sentElsewhere(models, page) {
  const wished = models.find(({ id }) => id === location.hash.slice(1));
  const own = models.filter((model) => pageOf(model) === page);
  const meant = wished ?? (own.length && (page !== "/" || own[0] === models[0]) ? own[0] : models[0]);
  if (meant === undefined || pageOf(meant) === page) return false;
  location.replace(`${pageOf(meant)}#${meant.id}`);
  return true;
}

/** Wakes a page of one model at a time up: `furnish()` once, then `use(model)` for the model that is meant and whenever another is chosen.
 * `facts(model)` are the words below the bar. */
export async function openPage({ furnish, use, facts }) {
  const page = location.pathname;
  try {
    makeTheme();
    makeRuns();
    const all = await models();
    if (sentElsewhere(all, page)) return;
    const own = all.filter((model) => pageOf(model) === page);
    if (!own.length) throw new Error((await tasks()).pages.find(({ address }) => address === page).missing);
    const select = find("#model");
    await fillChooser(select, all, page);
    const enter = (model) => {
      select.value = model.id;
      history.replaceState(null, "", `#${model.id}`);
      find("#facts").replaceChildren(...facts(model).map((text) => make("span", { text })));
      use(model);
    };
    select.addEventListener("change", () => {
      const model = all.find(({ id }) => id === select.value);
      if (pageOf(model) === page) enter(model);
      else visit(model);
    });
    furnish();
    enter(own.find(({ id }) => id === location.hash.slice(1)) ?? own[0]);
    document.body.dataset.ready = "yes";
  } catch (error) {
    complain(error);
    find("#facts").textContent = error.message;
  }
}

/** What is shown of any model: how many parameters, and how well it does. */
export const size = (model) =>
  [`${model.parameters.toLocaleString("en", { notation: "compact", maximumSignificantDigits: 3 })} parameters`, model.score].filter(Boolean);
