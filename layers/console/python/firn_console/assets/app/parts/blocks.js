// The small parts of all pages: what is loading, failed or empty, badges, facts, tabs, commands to copy.
import { html, useEffect, useRef, useState } from "../../vendor/preact.js";
import { announce } from "../shell/announcer.js";
import { keepKey } from "../shell/api.js";
import { age, clock, duration } from "../shell/format.js";
import { useNow } from "../shell/live.js";

/** A page's title, which is the tab's too and takes the focus when the page comes. */
export function Title({ children, aside }) {
  const heading = useRef(null);
  useEffect(() => {
    document.title = `${heading.current.textContent} · Firn`;
  });
  return html`<div class="title"><h1 tabindex="-1" ref=${heading}>${children}</h1>${aside}</div>`;
}

export function Loading({ what = "Loading" }) {
  return html`<p class="loading" role="status">${what} …</p>`;
}

/** What went wrong and what to do: the API's own words. */
export function Failure({ error, again }) {
  if (error.status === 401 && error.code !== "no_session") return html`<${KeyForm} error=${error} />`;
  return html`<div class="notice bad" role="alert">
    <strong>${error.code && error.code !== "error" ? error.code.replaceAll("_", " ") : "This did not work"}</strong>
    <p>${error.message}</p>
    ${error.status === 403 ? html`<p>Your role may not do this: ask for one that may.</p>` : null}
    ${again ? html`<button type="button" onClick=${again}>Try again</button>` : null}
  </div>`;
}

/** The stack asks who this is: a reader's key, kept while the tab is open. */
function KeyForm({ error }) {
  const [key, setKey] = useState("");
  const keep = (event) => {
    event.preventDefault();
    keepKey(key.trim());
    location.reload();
  };
  return html`<form class="panel" onSubmit=${keep}>
    <h2>This stack asks for a key</h2>
    <p>${error.message}</p>
    <div class="field"><label for="key" class="label">Key</label><input id="key" type="password" autocomplete="off" required value=${key} onInput=${(event) => setKey(event.currentTarget.value)} /></div>
    <p class="faint">It stays in this tab and goes to this address alone. <code>firn console --target NAME</code> signs for you instead.</p>
    <button type="submit" class="primary">Go on</button>
  </form>`;
}

/** Nothing is here, and how that changes: `command` for the terminal. */
export function Empty({ children, command }) {
  return html`<div class="empty"><p>${children}</p>${command ? html`<${Command} text=${command} />` : null}</div>`;
}

/** A live value's three faces: what is shown while it loads, when it fails, and when it is there. */
export function Live({ of, children, what }) {
  if (of.value !== undefined)
    return html`${of.error ? html`<${Failure} error=${of.error} again=${of.refresh} />` : null}${children(of.value)}`;
  return of.error ? html`<${Failure} error=${of.error} again=${of.refresh} />` : html`<${Loading} what=${what} />`;
}

/** A command for the terminal, with a button that copies it. */
export function Command({ text }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
      announce("Copied");
      setTimeout(() => setCopied(false), 2_000);
    } catch {
      announce("The browser does not let the console copy: select the command instead");
    }
  };
  return html`<div class="command"><code>${text}</code><button type="button" class="quiet" onClick=${copy} aria-label=${`Copy: ${text}`}>${copied ? "Copied" : "Copy"}</button></div>`;
}

const TONES = {
  held: "bad", failing: "bad", failed: "bad", critical: "bad", unfed: "warn", due: "warn", warning: "warn", behind: "warn",
  cancelled: "warn", quarantined: "bad", refused: "bad", dead_lettered: "bad", skipped: "warn", pending: "busy", busy: "busy", running: "busy", committing: "busy", waiting: "busy", waits: "busy", sent: "good", ok: "good", idle: "good",
  committed: "good", succeeded: "good",
};

/** A word for a state, and its colour. */
export function State({ of }) {
  return html`<span class=${`badge ${TONES[of] ?? "plain"}`}>${String(of).replaceAll("_", " ")}</span>`;
}

/** How long ago, with the exact time as its title. */
export function Age({ of }) {
  const now = useNow();
  return of ? html`<time datetime=${of} title=${`${clock(of)} UTC`}>${age(of, now)}</time>` : html`<span class="faint">never</span>`;
}

/** Names and values: `[["rows", 12], …]`; those that are undefined are left out. */
export function Facts({ of, label }) {
  return html`<dl class="facts" aria-label=${label}>
    ${of.filter(([, value]) => value !== undefined).map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}
  </dl>`;
}

/** Views of one page, which are addresses: `of` is [[view, name, address], …]. */
export function Views({ of, at, label }) {
  return html`<nav class="views" aria-label=${label}>
    ${of.map(([view, name, address]) => html`<a key=${view} href=${address} aria-current=${view === at ? "page" : undefined}>${name}</a>`)}
  </nav>`;
}

/** How long something has waited since a moment; – where nothing waits. */
export function Waits({ since }) {
  const now = useNow(1_000);
  return since ? html`<time datetime=${since} title=${`since ${clock(since)} UTC`}>${duration(Math.max(0, (now - Date.parse(since)) / 1000))}</time>` : "–";
}

/** A small table: `columns` is [[title, cell(row), "number"?], …]. For many rows there is the sheet. */
export function Rows({ label, columns, rows, keyOf }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}>
    <table>
      <thead><tr>${columns.map(([title, , kind]) => html`<th key=${title} scope="col" class=${kind}>${title}</th>`)}</tr></thead>
      <tbody>
        ${rows.map((row, n) => html`<tr key=${keyOf ? keyOf(row) : n}>${columns.map(([title, cell, kind]) => html`<td key=${title} class=${kind}>${cell(row, n)}</td>`)}</tr>`)}
      </tbody>
    </table>
  </div>`;
}
