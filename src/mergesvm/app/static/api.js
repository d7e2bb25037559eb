// Requests to the server.

export class ServerError extends Error {}

async function checked(response) {
  if (response.ok) return response;
  let detail = response.statusText;
  try {
    const body = await response.json();
    detail = body.detail;
  } catch { /* the body is no JSON: keep the status */ }
  throw new ServerError(detail || `The server answered ${response.status}.`);
}

async function request(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError("The server cannot be reached. Nothing is lost that was confirmed.");
  }
  return checked(response);
}

export async function get(path, parameters = {}) {
  const query = new URLSearchParams(parameters);
  return (await request(`${path}?${query}`)).json();
}

export async function post(path, body, signal) {
  const headers = { "content-type": "application/json" };
  return (await request(path, { method: "POST", headers, body: JSON.stringify(body), signal })).json();
}

export function pictureUrl(kind, name) {
  return `api/${kind}/${name.split("/").map(encodeURIComponent).join("/")}`;
}

/** Yield the lines of a streamed answer, parsed. */
export async function* lines(path, body, signal) {
  const headers = { "content-type": "application/json" };
  const response = await request(path, { method: "POST", headers, body: JSON.stringify(body), signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) if (part) yield JSON.parse(part);
  }
}
