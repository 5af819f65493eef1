// A file from the person: by button, drop or paste. What is done with it is the page's business.

import { find, make } from "./dom.js";

/** A button that lets a person choose an image, or another kind of file; the hidden input goes with it. */
export function fileButton(take, { what = "image", article = "an", accept = "image/*" } = {}) {
  const input = make("input", { type: "file", accept, id: "file", class: "unseen", tabindex: "-1", "aria-label": `Choose ${article} ${what}` });
  input.addEventListener("change", () => {
    if (input.files.length) take(input.files[0]);
    input.value = "";
  });
  const button = make("button", { type: "button", id: "choose", class: "drop", title: "It stays on this machine", onclick: () => input.click() },
    make("strong", { text: `Your own ${what}` }), make("span", { class: "soft", text: "choose, drop or paste" }));
  return [button, input];
}

/** Files that are dropped anywhere on the page, or pasted. */
export function listenForFiles(take) {
  const veil = find("#falling");
  let depth = 0;
  const carries = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  addEventListener("dragenter", (event) => {
    if (!carries(event)) return;
    depth += 1;
    veil.hidden = false;
  });
  addEventListener("dragleave", () => {
    depth = Math.max(0, depth - 1);
    veil.hidden = depth === 0;
  });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    depth = 0;
    veil.hidden = true;
    const file = event.dataTransfer?.files?.[0];
    if (file) take(file);
  });
  addEventListener("paste", (event) => {
    const file = [...(event.clipboardData?.files ?? [])][0];
    if (file) take(file);
  });
}
