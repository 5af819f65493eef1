// One pass of an image through a model (a look), what has been asked of it, and asking again when the server forgot it.

import { actionAddress, get, loadImage, imageAddress, post } from "/static/api.js";
import { complain, toast } from "/static/said.js";
import { change, state } from "./state.js";

/** A model beside the image: `before` are the predictions of the untouched image, `erased` and `order` what the brush did. */
export function newSide(model) {
  return { model, look: null, before: null, erased: new Set(), order: null, lasting: new Map(), answers: new Map(), flights: new Map(), running: null };
}

/** Runs the side's model on the image as it is now. While a pass runs, further wishes become one more pass. */
export function run(one) {
  one.again = true;
  one.running ??= (async () => {
    while (one.again) {
      one.again = false;
      try {
        await pass(one);
      } catch (error) {
        complain(error); // what was wished for meanwhile still has its turn
      }
    }
    one.running = null;
    change({ version: state.version + 1 });
  })();
  change({ version: state.version + 1 });
  return one.running;
}

export const runAll = () => Promise.all(state.sides.map(run));

async function pass(one) {
  if (!state.image) return;
  const image = state.image.id;
  const [erased, order] = [[...one.erased].sort((a, b) => a - b), one.order];
  const look = await post(actionAddress(one.model, "look"), { model: one.model.id, image, erased, order });
  if (image !== state.image?.id) return; // another image has been chosen meanwhile
  if (look.kept === false && one.model.attention) {
    one.model.attention = false;
    toast("The attention of this model does not fit the studio’s memory; start it with more, such as --memory 2048.");
  }
  const touched = erased.length > 0 || order !== null;
  if (!touched || one.before?.image !== image) {
    const untouched = touched ? await post(actionAddress(one.model, "look"), { model: one.model.id, image, erased: [], order: null }) : look;
    one.before = { image, scores: new Map(untouched.predictions.map(({ index, label, score }) => [index ?? label, score])), best: untouched.predictions[0] };
  }
  one.flights.forEach(({ stop }) => stop.abort());
  Object.assign(one, { look, touched, answers: new Map(), flights: new Map(), seen: null, seeing: true, seenFor: { image, erased, order } });
  change({ version: state.version + 1 });
  const arrived = (image) => {
    if (one.look !== look) return;
    Object.assign(one, { seen: image, seeing: false });
    change({ version: state.version + 1 });
  };
  loadImage(actionAddress(one.model, "seen", { look: look.id })).then(arrived, () => arrived(null)); // without it the image itself is on the stage
}

/** What is already known of a question, without asking. */
export const peek = (one, rest) => store(one, rest).get(rest);

const store = (one, rest) => (rest.startsWith("/") ? one.lasting : one.answers); // of the model, or of this look

/** The answer to a question about the side's look ("attention?layer=0…") or, with a leading slash, about its model. Kept.
 *  A spare question may be given up by `forget`, unless somebody else asks it too. */
export function ask(one, rest, { spare = false } = {}) {
  const known = peek(one, rest);
  if (known !== undefined) return Promise.resolve(known);
  const flying = one.flights.get(rest);
  if (flying) {
    flying.spare &&= spare;
    return flying.promise;
  }
  const stop = new AbortController();
  const { flights } = one;
  const answers = store(one, rest);
  const landed = () => flights.get(rest)?.stop === stop && flights.delete(rest); // given up and asked again, it is another flight
  const promise = question(one, rest, stop.signal).then((answer) => {
    answers.set(rest, answer);
    return answer;
  });
  promise.then(landed, landed);
  flights.set(rest, { promise, stop, spare });
  return promise;
}

async function question(one, rest, signal) {
  const address = () => (rest.startsWith("/") ? rest : `${actionAddress(one.model, rest)}${rest.includes("?") ? "&" : "?"}look=${encodeURIComponent(one.look.id)}`);
  const { look } = one;
  try {
    return await get(address(), signal);
  } catch (error) {
    if (error.status !== 410 || one.look !== look) throw error;
    const again = await post(actionAddress(one.model, "look"), { model: one.model.id, ...one.seenFor });
    if (one.look === look && again.version !== look.version) {
      Object.assign(one, { before: null, lasting: new Map() }); // the model has learned more: nothing that is shown is true of it
      run(one);
      throw new DOMException("The model has learned more.", "AbortError");
    }
    if (one.look === look) look.id = again.id; // the same numbers under another name: what is drawn stays
    return get(address(), signal);
  }
}

/** Uses the answer at once if it is known, else when it comes, unless `own` has asked for something else meanwhile. */
export function follow(own, one, rest, use, fail = complain) {
  own.wish = rest;
  const known = peek(one, rest);
  if (known !== undefined) {
    use(known);
    return;
  }
  ask(one, rest).then(
    (answer) => own.wish === rest && use(answer),
    (error) => !isStale(error) && own.wish === rest && fail(error),
  );
}

/** Gives up on spare questions that nobody waits for any longer, except `kept`. */
export function forget(one, kept) {
  for (const [rest, { stop, spare }] of one.flights) {
    if (!spare || rest === kept) continue;
    stop.abort();
    one.flights.delete(rest);
  }
}

export const isStale = (error) => error.name === "AbortError";

let wishes = 0;

/** Of the wishes for an image the last one counts, whichever answer comes last. */
export const newWish = () => (wishes += 1);
export const lastWish = () => wishes;

/** Puts an image on the stage and looks at it with every model, unless another one has been wished for meanwhile. */
export async function show(image, mine = newWish()) {
  if (mine !== wishes) return;
  const bitmap = await loadImage(imageAddress(image.id));
  if (mine !== wishes) return;
  for (const one of state.sides) Object.assign(one, { erased: new Set(), order: null, before: null });
  change({ image, bitmap, pinned: null, hovered: null });
  await runAll();
}
