// The same small square of several images, enlarged pixel by pixel. It follows the pointer over the slider, or the arrow keys.

import { make } from "/static/dom.js";

const SIDE = 64; // pixels a side that are shown, or all of a smaller image
const STEP = 16;

/** `panes`: [{image, title, note}] of one size. Returns the element and the side of the square in pixels. */
export function makeZoom(panes, { square, slider }) {
  const { naturalWidth: width, naturalHeight: height } = panes[0].image;
  const side = Math.min(SIDE, width, height);
  const mark = make("span", { class: "square", "aria-hidden": "true" });
  slider.append(mark);
  const canvases = panes.map(({ title }) => make("canvas", { width: side, height: side, role: "img", "aria-label": `${title}, enlarged` }));
  const figures = panes.map(({ title, note }, i) => make("figure", {}, canvases[i], make("figcaption", {}, make("b", { text: title }), note ? make("span", { text: note }) : null)));
  const box = make("div", { class: "zooms", tabindex: "0", role: "group", "aria-label": "Enlarged square: the arrow keys move it" }, figures);
  const place = { left: square.left, top: square.top };

  const draw = () => {
    place.left = Math.max(0, Math.min(width - side, Math.round(place.left)));
    place.top = Math.max(0, Math.min(height - side, Math.round(place.top)));
    Object.assign(mark.style, { left: `${(100 * place.left) / width}%`, top: `${(100 * place.top) / height}%`, width: `${(100 * side) / width}%`, height: `${(100 * side) / height}%` });
    box.dataset.place = `${place.left},${place.top}`;
    panes.forEach(({ image }, i) => canvases[i].getContext("2d").drawImage(image, place.left, place.top, side, side, 0, 0, side, side));
  };
  slider.addEventListener("pointermove", (event) => {
    const area = slider.getBoundingClientRect();
    place.left = ((event.clientX - area.left - slider.clientLeft) / slider.clientWidth) * width - side / 2;
    place.top = ((event.clientY - area.top - slider.clientTop) / slider.clientHeight) * height - side / 2;
    draw();
  });
  box.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    place.left += STEP * move[0];
    place.top += STEP * move[1];
    draw();
  });
  draw();
  return { box, side };
}
