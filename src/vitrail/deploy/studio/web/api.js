// Questions to the server that sent this page, and to no other. An error carries the server's one sentence.

export class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

async function sent(path, options) {
  try {
    return await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The studio does not answer. Is `vitrail studio` still running?", 0);
  }
}

async function answered(path, options) {
  return understood(await sent(path, options));
}

async function understood(response) {
  const body = await response.json().catch((error) => {
    if (error.name === "AbortError") throw error; // given up while the answer was on its way: no answer, not an empty one
    return {};
  });
  if (!response.ok) {
    const words = typeof body.error === "string" ? body.error : `The studio refused this (${response.status}).`;
    throw new Refused(words, response.status);
  }
  return body;
}

export const get = (path, signal) => answered(path, { signal });

const posting = (body, signal) => ({ method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });

export const post = (path, body, signal) => answered(path, posting(body, signal));

/** The same where the answer may be an image: then its address inside this page, `data:image/png;base64,…`. */
export async function postAny(path, body) {
  const response = await sent(path, posting(body));
  if (!response.ok || !response.headers.get("Content-Type").startsWith("image/")) return understood(response);
  const content = await response.blob();
  return new Promise((resolve) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.readAsDataURL(content);
  });
}

export function upload(file, address = "/api/images") {
  const form = new FormData();
  form.append("file", file, file.name || "image");
  return answered(address, { method: "POST", body: form });
}

export const models = async () => unwrap(await get("/api/models"), "models");
export const samples = async (model) => unwrap(await get(`/api/models/${encodeURIComponent(model)}/samples`), "samples");
export const pick = (model, sample, address = "/api/images") => post(address, { model, sample });
export const tasks = () => (known ??= get("/api/tasks")); // the same as long as the studio runs
export const imageAddress = (id) => `/api/images/${encodeURIComponent(id)}`;

/** Where an action of a model's task is asked for: POST the order there, or GET it with its parameters. */
export function actionAddress(model, action, parameters = {}) {
  const query = new URLSearchParams(parameters).toString();
  return `/api/${encodeURIComponent(model.task)}/${action}${query && `?${query}`}`;
}

export const runs = async (signal) => unwrap(await get("/api/runs", signal), "runs");
export const curve = (id, since, signal) => get(`/api/runs/${encodeURIComponent(id)}/curve?since=${since}`, signal);

let known = null;
const unwrap = (answer, name) => (Array.isArray(answer) ? answer : answer[name]);

export function loadImage(address) {
  return new Promise((resolve, reject) => {
    const image = new Image();
    image.onload = () => resolve(image);
    image.onerror = () => reject(new Refused("The image could not be shown.", 0));
    image.src = address;
  });
}
