// Questions to the server that sent this page, and to no other. An error carries the server's one sentence.

export class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

async function answered(path, options) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The studio does not answer. Is `vitrail studio` still running?", 0);
  }
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

export const post = (path, body, signal) =>
  answered(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });

export function upload(file, address = "/api/pictures") {
  const form = new FormData();
  form.append("file", file, file.name || "picture");
  return answered(address, { method: "POST", body: form });
}

export const models = async () => unwrap(await get("/api/models"), "models");
export const samples = async (model) => unwrap(await get(`/api/models/${encodeURIComponent(model)}/samples`), "samples");
export const pick = (model, sample, address = "/api/pictures") => post(address, { model, sample });
export const pictureAddress = (id) => `/api/pictures/${encodeURIComponent(id)}`;
export const lookAddress = (id, rest) => `/api/looks/${encodeURIComponent(id)}/${rest}`;
export const similarityAddress = (model, cell) => `/api/models/${encodeURIComponent(model)}/similarity?cell=${cell}`;
export const runs = async (signal) => unwrap(await get("/api/runs", signal), "runs");
export const curve = (id, since, signal) => get(`/api/runs/${encodeURIComponent(id)}/curve?since=${since}`, signal);

const unwrap = (answer, name) => (Array.isArray(answer) ? answer : answer[name]);

export function loadImage(address) {
  return new Promise((resolve, reject) => {
    const image = new Image();
    image.onload = () => resolve(image);
    image.onerror = () => reject(new Refused("The picture could not be shown.", 0));
    image.src = address;
  });
}
