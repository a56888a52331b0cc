// The stack's API: JSON over fetch. Numbers beyond 2^53 (ids of snapshots, int64 columns) arrive as text.

import { remember, remembered } from "./theme.js";

const ROOT = new URL("../v1/", document.baseURI);
const KEY = "firn.key"; // of sessionStorage: a key lives as long as its tab
const SESSION = "firn.session"; // of localStorage: `firn console` lets those in who know its address, in any tab

// Behind the #, so that it reaches no log; and out of the address before anybody sees or copies that.
const told = /^#session=([\w-]{20,200})$/.exec(location.hash);
if (told) {
  remember(SESSION, told[1]);
  history.replaceState(null, "", "#/");
}

/** Keep the key that the stack asked for (401), for this tab. */
export function keepKey(key) {
  sessionStorage.setItem(KEY, key);
}

/** An answer that is not 2xx, or none at all (`status` 0). */
export class ApiError extends Error {
  constructor(status, code, message, retryAfter = null) {
    super(message);
    Object.assign(this, { status, code, retryAfter });
  }
}

/** `path\`tables/${name}/schema\``: each value is one encoded segment. */
export function path(parts, ...values) {
  return parts.reduce((made, part, n) => made + encodeURIComponent(values[n - 1]) + part);
}

/** `path?name=value…` without the fields that are null, undefined or "". */
export function withQuery(where, fields) {
  const given = Object.entries(fields).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `${where}${where.includes("?") ? "&" : "?"}${new URLSearchParams(given)}` : where;
}

/**
 * GET `where` under /v1/. -> {value, etag}, or {unchanged: true} where the answer still has `etag`.
 * Throws ApiError.
 */
export async function get(where, { etag, signal } = {}) {
  const answer = await ask(where, { headers: etag ? { "If-None-Match": etag } : {}, signal });
  if (answer.status === 304) return { unchanged: true };
  return { value: await json(answer), etag: answer.headers.get("ETag") };
}

/** POST `body` as JSON; -> what is answered. Throws ApiError. */
export async function post(where, body, { signal } = {}) {
  return json(await send(where, body, signal));
}

/** POST `body` as JSON; -> the answer's bytes as {blob}, or {link} if it is too large to be one. Throws ApiError. */
export async function download(where, body) {
  const answer = await send(where, body);
  const kind = answer.headers.get("Content-Type") ?? "";
  if (!kind.startsWith("application/json")) return { blob: await answer.blob() };
  const text = await answer.text();
  const value = parse(text);
  return isLink(value) ? { link: value } : { blob: new Blob([text], { type: kind }) };
}

/** Whether an answer is the link to a result and not the result (docs/http.md). */
export function isLink(value) {
  return typeof value?.url === "string" && typeof value?.expires_at === "string" && !("rows" in value && Array.isArray(value.rows));
}

function send(where, body, signal) {
  // X-Firn-Console: a header that no page of another origin can send without being asked for leave.
  const headers = { "Content-Type": "application/json", "X-Firn-Console": "1" };
  return ask(where, { method: "POST", headers, body: JSON.stringify(body), signal });
}

async function ask(where, options) {
  const key = sessionStorage.getItem(KEY);
  if (key) options.headers["x-api-key"] = key;
  const session = remembered(SESSION);
  if (session) options.headers["X-Firn-Session"] = session;
  let answer;
  try {
    // The conditional requests are ours: the browser's own cache must not answer them.
    answer = await fetch(new URL(where, ROOT), { cache: "no-store", credentials: "same-origin", redirect: "error", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "unreachable", "The stack does not answer. Is it running? Start it with: firn up");
  }
  if (answer.ok || answer.status === 304) return answer;
  throw await failure(answer);
}

async function failure(answer) {
  const text = await answer.text();
  const after = Number(answer.headers.get("Retry-After")) || null;
  try {
    const { error, message } = parse(text);
    if (message) return new ApiError(answer.status, error ?? "error", String(message), after);
  } catch {
    // not JSON: a gateway's own words
  }
  return new ApiError(answer.status, "error", `HTTP ${answer.status}: ${text.slice(0, 300) || answer.statusText}`, after);
}

async function json(answer) {
  const text = await answer.text();
  try {
    return parse(text);
  } catch {
    throw new ApiError(answer.status, "not_json", "The answer is not JSON: does this address belong to a Firn stack?");
  }
}

const LONG = /\d{16}/;
const TOKENS = /"(?:[^"\\]|\\.)*"|(?<![\d.eE+-])-?\d{16,}(?![\d.eE])/g;

/** JSON with whole numbers of 16 digits and more as text: JavaScript would round them. */
export function parse(text) {
  return JSON.parse(LONG.test(text) ? text.replace(TOKENS, (token) => (token[0] === '"' ? token : `"${token}"`)) : text);
}
