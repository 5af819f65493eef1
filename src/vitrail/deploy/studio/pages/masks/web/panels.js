// Four images side by side: the image, what is left of it, what the model drew, and that with the seen patches pasted in.
// Patches are hidden and shown on the first two, by click, by a stroke of the mouse, by touch, or by arrow keys and Enter.

import { make } from "/static/dom.js";
import { toast } from "/static/said.js";
import { place } from "/static/words.js";

const PANELS = [["image", "The image"], ["left", "Visible patches"], ["drawn", "Drawn by the model"], ["pasted", "Drawn, with the visible patches"]];
const SMALL = 96; // pixels a side up to which they are to be seen
const HINT = "Arrow keys move from patch to patch, Enter or Space masks or shows the patch.";

/** `touched(hidden, words)` is called when the person has changed which cells are hidden. */
export function makePanels(box, touched) {
  const own = { grid: [1, 1], hidden: new Set(), sent: [], read: null, drawn: null, cursor: 0, stroke: null };
  const canvases = {};
  const marks = [];
  const frames = {};
  for (const [name, title] of PANELS) {
    const canvas = (canvases[name] = make("canvas", { role: "img", "aria-label": title }));
    const live = name === "image" || name === "left";
    const keys = name === "left" ? { tabindex: "0", role: "application", "aria-roledescription": "grid of patches", "aria-label": title, "aria-description": HINT } : {};
    const frame = (frames[name] = make("div", { class: `frame ${live ? "live" : ""}`, id: name, ...keys }, canvas));
    if (live) {
      const mark = make("i", { class: "mark", "aria-hidden": "true", hidden: true });
      frame.append(make("i", { class: "lines", "aria-hidden": "true" }), mark);
      marks.push(mark);
      listen(frame, canvas);
    }
    box.append(make("figure", { "data-panel": name }, frame, make("figcaption", { text: title })));
  }
  frames.left.addEventListener("keydown", press);
  frames.left.addEventListener("focus", () => frames.left.matches(":focus-visible") && point(own.cursor));
  frames.left.addEventListener("blur", () => point(null));

  function area(cell) {
    const [rows, columns] = own.grid;
    const [height, width] = [own.read.naturalHeight / rows, own.read.naturalWidth / columns];
    return [(cell % columns) * width, Math.floor(cell / columns) * height, width, height];
  }

  function paint() {
    if (!own.read) return;
    const { naturalWidth: width, naturalHeight: height } = own.read;
    box.style.setProperty("--aspect", `${width} / ${height}`);
    box.classList.toggle("coarse", Math.max(width, height) <= SMALL);
    const layers = { image: own.read, left: own.read, drawn: own.drawn, pasted: own.drawn };
    for (const [name, image] of Object.entries(layers)) {
      const context = canvases[name].getContext("2d");
      Object.assign(canvases[name], { width, height }); // empty again
      context.drawImage(image, 0, 0);
      for (let cell = 0; cell < own.grid[0] * own.grid[1]; cell++) {
        const there = area(cell);
        if (name === "left" && own.hidden.has(cell)) context.clearRect(...there);
        if (name === "pasted" && !own.hidden.has(cell)) context.drawImage(own.read, ...there, ...there);
      }
    }
  }

  /** Shows where the pointer or the keys are; null: nowhere. */
  function point(cell) {
    const [rows, columns] = own.grid;
    for (const mark of marks) {
      mark.hidden = cell === null;
      if (cell !== null) Object.assign(mark.style, { left: `${(100 * (cell % columns)) / columns}%`, top: `${(100 * Math.floor(cell / columns)) / rows}%`, width: `${100 / columns}%`, height: `${100 / rows}%` });
    }
  }

  /** Hides or shows a cell; the last one that is left stays. */
  function put(cell, hide) {
    if (own.hidden.has(cell) === hide) return;
    if (hide && own.hidden.size + 1 >= own.grid[0] * own.grid[1]) return toast("One patch at least stays: from nothing the model cannot draw.");
    if (hide) own.hidden.add(cell);
    else own.hidden.delete(cell);
    paint();
    touched(own.hidden, `${place(cell, own.grid)}: ${hide ? "masked" : "shown"}.`);
  }

  function listen(frame, canvas) {
    const at = (event) => {
      const bounds = canvas.getBoundingClientRect();
      const [rows, columns] = own.grid;
      const within = (share, count) => Math.min(count - 1, Math.max(0, Math.floor(share * count)));
      return within((event.clientY - bounds.top) / bounds.height, rows) * columns + within((event.clientX - bounds.left) / bounds.width, columns);
    };
    frame.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.pointerType === "touch" || !own.read) return; // a finger may be about to scroll: it taps, see click
      frame.setPointerCapture(event.pointerId);
      own.cursor = at(event);
      own.stroke = !own.hidden.has(own.cursor);
      put(own.cursor, own.stroke);
    });
    frame.addEventListener("pointermove", (event) => {
      if (event.pointerType === "touch" || !own.read) return;
      point(at(event));
      if (own.stroke !== null) put(at(event), own.stroke);
    });
    frame.addEventListener("pointerleave", () => own.stroke === null && point(null));
    for (const name of ["pointerup", "pointercancel"]) frame.addEventListener(name, () => (own.stroke = null));
    frame.addEventListener("click", (event) => {
      if (event.pointerType !== "touch" || !own.read) return;
      own.cursor = at(event);
      put(own.cursor, !own.hidden.has(own.cursor));
    });
  }

  function press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !own.read) return;
    const [rows, columns] = own.grid;
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (move) {
      const step = (value, by, count) => Math.min(count - 1, Math.max(0, value + by));
      own.cursor = step(Math.floor(own.cursor / columns), move[0], rows) * columns + step(own.cursor % columns, move[1], columns);
      frames.left.setAttribute("aria-label", `${PANELS[1][1]}: ${place(own.cursor, own.grid)}, ${own.hidden.has(own.cursor) ? "masked" : "visible"}`);
    } else if (event.key === "Enter" || event.key === " ") put(own.cursor, !own.hidden.has(own.cursor));
    else return;
    point(own.cursor);
    event.preventDefault();
  }

  return {
    /** Another model: its grid. What is shown stays until the model has drawn. */
    use(model) {
      own.grid = model.grid;
      own.cursor = 0;
      box.style.setProperty("--rows", model.grid[0]);
      box.style.setProperty("--columns", model.grid[1]);
      this.clear();
    },
    clear() {
      Object.assign(own, { read: null, hidden: new Set() });
    },
    /** `hidden`: cells as the server has them; null where the person has clicked on meanwhile. */
    show({ read, drawn, hidden }) {
      Object.assign(own, { read, drawn });
      if (hidden !== null) Object.assign(own, { hidden: new Set(hidden), sent: hidden });
      paint();
    },
    /** The server has refused: as it was before, which is returned. */
    undo() {
      own.hidden = new Set(own.sent);
      paint();
      return own.sent;
    },
  };
}
