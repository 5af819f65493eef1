// Handing an image in, on the pages of one model at a time: the person's own by button, drop or paste, or a sample of the run's data.

import { pick, samples, upload } from "./api.js";
import { find, make } from "./dom.js";
import { fileButton, listenForFiles } from "./files.js";
import { complain } from "./said.js";

/** Fills #images. `use(image)` is called with the image that was wished for last, once the server has it. Returns `offer(model)`,
 * which shows the samples of a model, and `invite(box)`, which asks for an image where one will be. `kind` is of files that are no
 * images: {what, article, accept, address}, whose samples have names and no thumbnails. */
export function makeHandIn(use, kind = { what: "image", article: "an" }) {
  let wish = 0;
  let current = null;
  const strip = make("div", { class: "samples", role: "group", "aria-label": `Samples of the run's own ${kind.what}s`, hidden: true });

  /** An image on its way to the server; whatever is wrong with it is said in one line, and the page goes on. */
  const take = async (coming, sample) => {
    const mine = (wish += 1);
    try {
      const image = await coming;
      if (mine !== wish) return;
      for (const button of strip.children) button.setAttribute("aria-pressed", String(button === sample));
      if (image.note) complain({ message: image.note });
      await use(image);
    } catch (error) {
      complain(error);
    }
  };
  const address = () => kind.address?.(current); // undefined: that of images
  const takeFile = (file) => take(upload(file, address()));
  find("#falling p").textContent = `Let the ${kind.what} fall`;
  find("#images").append(...fileButton(takeFile, kind), strip);
  listenForFiles(takeFile);

  /** Images that the model was not trained on, where its data is still there; with `first`, the first of them is taken. */
  const offer = async (model, { first = false } = {}) => {
    current = model;
    const before = wish;
    const found = await samples(model.id).catch(() => []);
    if (model !== current) return;
    strip.hidden = !found.length;
    strip.replaceChildren(...found.map(({ id, label, url }) => {
      const face = url ? make("img", { src: url, alt: `Sample: ${label}`, loading: "lazy", width: 52, height: 52 }) : make("span", { text: label });
      const button = make("button", { type: "button", class: url ? "sample" : "sample named", title: label, "aria-pressed": "false", onclick: () => take(pick(model.id, id, address()), button) }, face);
      return button;
    }));
    if (first && before === wish) strip.firstChild?.click();
  };

  const invite = (box) =>
    box.replaceChildren(make("button", { type: "button", class: "invitation", onclick: () => find("#choose").click() },
      make("strong", { text: `Drop ${kind.article} ${kind.what} here` }), make("span", { class: "soft", text: "or choose or paste one. It stays on this machine." })));

  return { offer, invite };
}
