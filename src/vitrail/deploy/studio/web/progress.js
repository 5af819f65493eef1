// Work of the server that takes a while: watched until it is done, and stopped.

import { get, post } from "./api.js";
import { find } from "./dom.js";
import { complain } from "./said.js";
import { count } from "./words.js";

const PAUSE = 200; // milliseconds between two looks at the progress

/** The job at `address` once it is over; null where `current()` says that another was wished for meanwhile. `working` receives how far it is. */
export async function follow(address, started, { working, current }) {
  let found = started;
  while (["waiting", "running"].includes(found.state)) {
    working(found);
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
    if (!current()) return null;
    found = await get(`${address}/${encodeURIComponent(found.id)}`);
    if (!current()) return null;
  }
  return found;
}

/** In #working, its bar and its words; null: nothing is under way. */
export function showProgress(found, { step, doing }) {
  find("#working").hidden = found === null;
  find("#asking").toggleAttribute("data-working", found !== null);
  if (found === null) return;
  const bar = find("#progress");
  if (found.of) Object.assign(bar, { max: found.of, value: found.done });
  else bar.removeAttribute("value"); // it is not known yet how far
  find("#progress-text").textContent = found.of ? `${found.done} of ${count(found.of, step)}` : found.state === "waiting" ? "Waiting for its turn" : doing;
}

export async function stopJob(address, id) {
  try {
    await post(`${address}/${encodeURIComponent(id)}/stop`, {});
  } catch (error) {
    complain(error);
  }
}
