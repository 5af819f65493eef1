// Which page a model belongs to: each kind has one of its own, and the choosers lead from one to the other.

import { make } from "./dom.js";

const PAGES = [["/", "Pictures", ["classify"]], ["/restore", "Restoration", ["restore"]], ["/text", "Text", null]]; // null: every other task

export const pageOf = ({ task }) => PAGES.find(([, , tasks]) => tasks === null || tasks.includes(task))[0];

export const visit = (model) => (location.href = `${pageOf(model)}#${model.id}`);

/** The models of `page` by themselves, those of other pages in groups under their names. */
export function fillChooser(select, models, page) {
  for (const [address, label] of PAGES) {
    const options = models.filter((model) => pageOf(model) === address).map(({ id, name }) => make("option", { value: id, text: name }));
    if (address === page) select.prepend(...options);
    else if (options.length) select.append(make("optgroup", { label }, options));
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
