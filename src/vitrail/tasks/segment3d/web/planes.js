// Three planes through a volume, each with its slider. A point in one of them is where the other two are cut.

import { make, slider } from "/static/dom.js";
import { loadImage } from "/static/api.js";
import { paintLabels, readNumbers } from "/static/labels.js";
import { complain } from "/static/said.js";
import { capital } from "/static/words.js";

// Which axis of the volume runs across a plane and which down it, and what their ends are called, as radiologists look at them.
const AXES = { sagittal: [1, 2], coronal: [0, 2], axial: [0, 1] };
const ENDS = { sagittal: ["front", "back", "up", "down"], coronal: ["right", "left", "up", "down"], axial: ["right", "left", "front", "back"] };
const ORDER = ["axial", "coronal", "sagittal"];
const HINT = "Arrow keys move where the other planes are cut; Page Up and Page Down move this one.";

/** `address(plane, number)` of a slice: red is the scan, green and blue the class. `look()` gives how labels are painted: {colors, opacity, only}. */
export function makePlanes(box, { planes, address, look }) {
  const at = planes.map(({ start }) => start); // along x, y and z
  const shown = ORDER.map((name) => build(planes.findIndex((plane) => plane.name === name)));
  box.replaceChildren(make("div", { class: "planes" }, shown.map(({ figure }) => figure)));

  function build(axis) {
    const plane = planes[axis];
    const { name, slices, width, height, mm } = plane;
    const own = { axis, plane, image: null, wanted: null, loading: false };
    own.canvas = make("canvas", { role: "img", "aria-label": `${name} slice` });
    own.labels = make("canvas", { class: "labels", "aria-hidden": "true" });
    own.lines = ["across", "down"].map((way) => make("i", { class: `cut ${way}`, "aria-hidden": "true" }));
    const ends = ENDS[name].map((end, i) => make("span", { class: `end ${["west", "east", "north", "south"][i]}`, "aria-hidden": "true", text: end[0].toUpperCase(), title: end }));
    own.frame = make("div", { class: "window aimed", tabindex: "0", role: "application", "aria-roledescription": "slice", "aria-label": `${capital(name)} slices`, "aria-description": HINT }, own.canvas, own.labels, own.lines, ends);
    own.frame.style.aspectRatio = `${mm[0]} / ${mm[1]}`;
    own.frame.style.setProperty("--aspect", String(mm[0] / mm[1]));
    const words = (number) => `${number} of ${slices}`;
    own.slider = slider(capital(name), { id: name, min: 1, max: slices, value: at[axis] + 1, words, react: (number) => move(axis, number - 1) });
    own.figure = make("figure", { "data-plane": name }, own.frame, own.slider.box);
    own.frame.addEventListener("pointerdown", (event) => {
      if (event.button === 0 && event.pointerType !== "touch") own.frame.setPointerCapture(event.pointerId);
      aim(event);
    });
    own.frame.addEventListener("pointermove", (event) => event.buttons === 1 && event.pointerType !== "touch" && aim(event));
    own.frame.addEventListener("keydown", press);
    own.frame.addEventListener("wheel", (event) => {
      if (!event.shiftKey) return;
      event.preventDefault();
      move(axis, at[axis] + Math.sign(event.deltaY || event.deltaX));
    }, { passive: false });

    const [across, down] = AXES[name];
    function aim(event) {
      const bounds = own.canvas.getBoundingClientRect();
      move(across, width - 1 - Math.floor(((event.clientX - bounds.left) / bounds.width) * width)); // both run the other way
      move(down, height - 1 - Math.floor(((event.clientY - bounds.top) / bounds.height) * height));
    }
    function press(event) {
      const step = { ArrowLeft: [across, 1], ArrowRight: [across, -1], ArrowUp: [down, 1], ArrowDown: [down, -1], PageUp: [axis, 1], PageDown: [axis, -1] }[event.key];
      if (!step) return;
      event.preventDefault();
      move(step[0], at[step[0]] + step[1]);
    }
    return own;
  }

  function move(axis, number) {
    const next = Math.max(0, Math.min(planes[axis].slices - 1, number));
    if (next === at[axis]) return;
    at[axis] = next;
    load(shown.find((own) => own.axis === axis));
    mark();
  }

  /** Where the other two planes cut each, and what the sliders say. */
  function mark() {
    for (const { axis, plane, lines, slider: control } of shown) {
      control.set(at[axis] + 1);
      const [across, down] = AXES[plane.name];
      lines[0].style.top = `${(100 * (plane.height - 0.5 - at[down])) / plane.height}%`;
      lines[1].style.left = `${(100 * (plane.width - 0.5 - at[across])) / plane.width}%`;
    }
  }

  /** One slice at a time; of those wished for meanwhile the last comes next. */
  async function load(own) {
    own.wanted = at[own.axis];
    if (own.loading) return;
    own.loading = true;
    while (own.wanted !== null) {
      const number = own.wanted;
      own.wanted = null;
      try {
        own.found = readNumbers(await loadImage(address(own.plane.name, number)), 1);
        draw(own);
        own.frame.dataset.slice = number;
      } catch (error) {
        complain(error);
      }
    }
    own.loading = false;
  }

  function draw({ canvas, labels, found }) {
    const { width, height, data } = found;
    Object.assign(canvas, { width, height });
    const context = canvas.getContext("2d");
    const image = context.createImageData(width, height);
    for (let i = 0; i < data.length; i += 4) {
      image.data[i] = image.data[i + 1] = image.data[i + 2] = data[i];
      image.data[i + 3] = 255;
    }
    context.putImageData(image, 0, 0);
    const { colors, ...how } = look();
    paintLabels(labels, found, colors, { ...how, clear: [0] });
  }

  mark();
  const ready = Promise.all(shown.map(load));
  return {
    ready,
    /** Labels are to be painted another way. */
    repaint: () => shown.forEach((own) => own.found && draw(own)),
  };
}
