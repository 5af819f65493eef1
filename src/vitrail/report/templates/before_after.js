"use strict";
// <before-after>: two images of one size as one, with a line to drag between them. A range input that covers both is what the
// keyboard and a screen reader use; the pointer moves it too. Without this script the two images stand side by side.
{
  const make = (tag, attributes, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  };

  class BeforeAfter extends HTMLElement {
    connectedCallback() {
      if (this.input) return;
      this.names = [...this.querySelectorAll(":scope > figure > figcaption")].map((caption) => caption.textContent);
      const label = `Line between ${this.names.join(" and ")}`;
      this.input = make("input", { type: "range", min: 0, max: 100, value: 50, step: 1 });
      this.append(make("label", {}, make("span", { class: "hidden-words" }, label), this.input), make("span", { class: "handle", "aria-hidden": "true" }));
      for (const image of this.querySelectorAll("img")) image.draggable = false;
      this.dataset.live = "yes";
      this.input.addEventListener("input", () => this.move());
      this.addEventListener("pointerdown", (event) => this.take(event));
      this.addEventListener("pointermove", (event) => this.hasPointerCapture(event.pointerId) && this.follow(event));
      this.move();
    }

    take(event) {
      if (event.button !== 0) return;
      event.preventDefault(); // or a text would be selected
      this.setPointerCapture(event.pointerId);
      this.input.focus({ preventScroll: true, focusVisible: false }); // the arrow keys go on from here
      this.follow(event);
    }

    follow(event) {
      const left = this.getBoundingClientRect().left + this.clientLeft; // within its frame
      this.input.value = (100 * (event.clientX - left)) / this.clientWidth;
      this.input.dispatchEvent(new Event("input", { bubbles: true }));
    }

    move() {
      const share = Number(this.input.value);
      this.style.setProperty("--at", `${share}%`);
      this.input.setAttribute("aria-valuetext", `${share} % ${this.names[0]}, ${100 - share} % ${this.names[1]}`);
    }
  }
  customElements.define("before-after", BeforeAfter);
}
