// The page of models that label volumes wakes up: a scan is handed in, labelled while one watches, and leafed through along three axes.

import { actionAddress, post } from "/static/api.js";
import { makeClasses } from "/static/classes.js";
import { find, make, slider } from "/static/dom.js";
import { makeHandIn } from "/static/hand_in.js";
import { openPage, size } from "/static/pages.js";
import { makePlanes } from "./planes.js";
import { follow, showProgress, stopJob } from "/static/progress.js";
import { announce, complain, toast } from "/static/said.js";
import { count, number, percent } from "/static/words.js";

const own = { model: null, scan: null, planes: null, opacity: 0.55, only: null, wish: 0, running: null };
const working = (found) => showProgress(found, { step: "slice", doing: "Reading the scan, labelling its first slices" });

function furnish() {
  own.scans = makeHandIn((scan) => {
    own.scan = scan;
    return label();
  }, { what: "scan", article: "a", accept: ".nii,.gz,.nii.gz,application/gzip", address: (model) => actionAddress(model, "scans") });
  own.slider = slider("Labels", { id: "labels", min: 0, max: 1, step: 0.05, value: own.opacity, words: (value) => `${Math.round(100 * value)}\u00a0%`, react: (opacity) => {
    own.opacity = opacity;
    own.planes?.repaint();
  } });
  find("#opacity").append(own.slider.box);
  own.classes = makeClasses(find("#list"), (only) => {
    own.only = only;
    own.planes?.repaint();
  });
  find("#stop").addEventListener("click", () => own.running !== null && stopJob(actionAddress(own.model, "label"), own.running));
  find("#again").addEventListener("click", label);
}

function useModel(model) {
  own.model = model;
  own.scans.offer(model);
  if (own.scan) label();
  else own.scans.invite(find("#shown"));
}

function facts(model) {
  const details = [count(model.labels.length - 1, "class", "classes"), `sees ${model.crop.join(" × ")} voxels at a time`];
  if (model.spacing) details.push(`of ${model.spacing.map((edge) => number(edge)).join(" × ")} mm`);
  return [...details, ...size(model)];
}

/** One scan from the wish to its slices; a newer wish takes its place, and the server lets go of this one. */
async function label() {
  const mine = (own.wish += 1);
  const { model, scan } = own;
  for (const id of ["#answer", "#resting"]) find(id).hidden = true;
  find("#shown").replaceChildren(make("p", { class: "empty soft", text: `${scan.name}: ${scan.size.join(" × ")} voxels. Its slices will be here.` }));
  own.planes = null;
  working({ state: "waiting", done: 0, of: 0 });
  try {
    const started = await post(actionAddress(model, "label"), { model: model.id, scan: scan.id });
    own.running = started.id;
    const found = await follow(actionAddress(model, "label"), started, { working, current: () => mine === own.wish });
    if (found === null) return;
    working(null);
    if (found.state === "done") return await show(found);
    find("#resting").hidden = false;
    if (found.state === "failed") toast(found.error);
    else announce("Stopped.");
  } catch (error) {
    if (mine !== own.wish) return;
    working(null);
    find("#resting").hidden = false;
    complain(error.status === 410 ? { message: "The studio no longer has this scan: choose it once more." } : error);
  }
}

async function show(found) {
  const { labels, colors } = own.model;
  own.only = null;
  const most = found.found.reduce((sum, { ml }) => sum + ml, 0) || 1;
  const rows = [...found.found].sort((one, other) => other.ml - one.ml);
  own.classes.show(rows.map(({ index, ml, score }) => ({ index, label: labels[index], color: colors[index], share: ml / most, words: `${number(ml, 4)} ml`, more: `sure ${percent(score)}` })));
  own.planes = makePlanes(find("#shown"), { planes: found.planes, address: (plane, slice) => actionAddress(own.model, "slice", { answer: found.id, plane, number: slice }), look: () => ({ colors, opacity: own.opacity, only: own.only }) });
  const edges = own.scan.spacing.map((edge) => number(edge)).join(" × ");
  find("#numbers").textContent = `${own.scan.size.join(" × ")} voxels of ${edges} mm, ${(found.ms / 1000).toFixed(1)} s. Point into a plane to cut the others there.${rows.length ? "" : " Nothing but background was found."}`;
  Object.assign(find("#save"), { href: actionAddress(own.model, "labels", { answer: found.id }), download: `${own.scan.name.replace(/\.nii(\.gz)?$/i, "")}_labels.nii.gz` });
  find("#answer").hidden = false;
  await own.planes.ready;
  announce(`${own.scan.name} is labelled: ${rows.map(({ index, ml }) => `${labels[index]} ${number(ml, 4)} ml`).join(", ") || "nothing but background"}.`);
}

openPage({ furnish, use: useModel, facts });
