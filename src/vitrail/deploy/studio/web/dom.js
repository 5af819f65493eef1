// Elements without markup: whatever a label or a file name holds, it is text.

const DRAWN = "http://www.w3.org/2000/svg";

/** make("button", {class: "x", text: "y", onclick: f}, child, ...) */
export function make(tag, attributes = {}, ...children) {
  return furnish(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function draw(tag, attributes = {}, ...children) {
  return furnish(document.createElementNS(DRAWN, tag), attributes, children);
}

function furnish(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const find = (selector) => document.querySelector(selector);

/** New children; the focus stays on the one with the same data-id. */
export function refill(box, children) {
  const id = box.contains(document.activeElement) ? document.activeElement.dataset.id : undefined;
  box.replaceChildren(...children);
  if (id !== undefined) [...box.querySelectorAll("[data-id]")].find(({ dataset }) => dataset.id === id)?.focus({ preventScroll: true });
}

/** A row of buttons of which one is pressed. `choices`: [value, words, hint?]; returns the element and `press(value)`. */
export function choice(label, choices, chosen, react, extra = "") {
  const buttons = new Map();
  const box = make("div", { class: `choice ${extra}`, role: "group", "aria-label": label });
  for (const [value, words, hint] of choices) {
    const button = make("button", { type: "button", text: words, title: hint, "data-value": value, onclick: () => react(value) });
    buttons.set(value, button);
    box.append(button);
  }
  const press = (value) => buttons.forEach((button, own) => button.setAttribute("aria-pressed", String(own === value)));
  press(chosen);
  return { box, press, buttons };
}

/** A labeled slider with its value in words beside it. */
export function slider(label, { min = 0, max, value, step = 1, words = String, react, id }) {
  const shown = make("output", { text: words(value) });
  const input = make("input", { type: "range", min, max, step, value, id, "aria-label": label, "aria-valuetext": words(value) });
  const set = (next) => {
    input.value = next;
    shown.textContent = words(Number(next));
    input.setAttribute("aria-valuetext", words(Number(next)));
  };
  input.addEventListener("input", () => {
    set(input.value);
    react(Number(input.value));
  });
  return { box: make("label", { class: "slider" }, make("span", { text: label }), input, shown), set, input };
}
