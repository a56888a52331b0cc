// Dead letters: by reason, each with its event; correct one, and replay.
import { html, useEffect, useMemo, useState } from "../../vendor/preact.js";
import { ActionDialog } from "../parts/actions.js";
import { Age, Empty, Facts, Failure, Live, Loading, Rows, State, Title } from "../parts/blocks.js";
import { Newer, usePages } from "../parts/paging.js";
import { Sheet } from "../parts/sheet.js";
import { path } from "../shell/api.js";
import { clock, count, counted, size } from "../shell/format.js";
import { useLive } from "../shell/live.js";
import { link, setFields } from "../shell/routes.js";

export function Page({ fields }) {
  const filter = { stream: fields.stream, reason: fields.reason, table: fields.table, replayed: fields.replayed, limit: 500 };
  const pages = usePages("console/dead-letters", filter, "letters");
  const actions = useLive("console/actions", { every: 0 }).value?.actions ?? [];
  const [dialog, setDialog] = useState(null);
  const replay = actions.find((one) => one.name === "replay");
  const known = { stream: fields.stream, reason: fields.reason, table: fields.table };
  const given = Object.fromEntries(Object.entries(known).filter(([, value]) => value));
  return html`<${Title} aside=${replay && fields.stream ? html`<span class="grow"></span><button type="button" class="primary" disabled=${!replay.allowed} onClick=${() => setDialog(given)}>Replay these …</button>` : null}>Dead letters<//>
    <p class="faint">Events that could not be applied, with their reason and original bytes. Fix the cause, then replay: each comes back once, in its old place.</p>
    ${pages.error ? html`<${Failure} error=${pages.error} again=${pages.refresh} />` : null}
    ${pages.loading ? html`<${Loading} what="Counting dead letters" />` : null}
    ${pages.first ? html`<${Reasons} first=${pages.first} fields=${fields} onReplay=${replay?.allowed ? setDialog : null} />` : null}
    ${pages.first ? html`<${Letters} pages=${pages} fields=${fields} />` : null}
    ${dialog && replay ? html`<${ActionDialog} action=${replay} fields=${dialog} onClose=${() => setDialog(null)} onDone=${pages.refresh} />` : null}`;
}

function Reasons({ first, fields, onReplay }) {
  const filtered = fields.stream || fields.reason || fields.table;
  return html`<section class="panel" aria-labelledby="reasons">
    <div class="tools">
      <h2 id="reasons">By reason</h2>
      ${first.counted_objects < first.objects ? html`<span class="faint">counted ${count(first.counted_objects)} of ${count(first.objects)} objects so far</span>` : null}
      <span class="grow"></span>
      <label><input type="checkbox" checked=${fields.replayed === "true"} onChange=${(event) => setFields({ replayed: event.currentTarget.checked ? "true" : null })} />replayed ones too</label>
      ${filtered ? html`<a href=${link("dead-letters")}>Show all</a>` : null}
    </div>
    ${first.counts.length
      ? html`<${Rows} label="Dead letters by reason" rows=${first.counts} keyOf=${(one) => `${one.stream} ${one.table} ${one.reason}`} columns=${[
          ["reason", (one) => html`<a href=${link("dead-letters", { stream: one.stream, reason: one.reason, table: one.table })}>${one.reason}</a>`],
          ["stream", (one) => one.stream],
          ["source table", (one) => one.table ?? html`<span class="faint">not known</span>`],
          ["waiting", (one) => count(one.waiting), "number"],
          ["of", (one) => count(one.letters), "number"],
          ["what to do", (one) => one.advice],
          ["", (one) => (onReplay && one.waiting ? html`<button type="button" class="quiet" onClick=${() => onReplay({ stream: one.stream, reason: one.reason, ...(one.table ? { table: one.table } : {}) })}>Replay …<span class="unseen"> ${one.reason} of ${one.stream}</span></button>` : null)],
        ]} />${first.more_counts ? html`<p class="faint">and ${counted(first.more_counts, "more kind")} with fewer that wait.</p>` : null}`
      : html`<${Empty}>${filtered ? "None of this kind waits." : "No event was refused: every event that was accepted is in a table, or on its way."}<//>`}
  </section>`;
}

const nameOf = (letter) => `${letter.object}/${letter.row}`;

function Letters({ pages, fields }) {
  const { rows } = pages;
  const at = useMemo(() => rows.findIndex((one) => nameOf(one) === fields.letter), [rows, fields.letter]);
  const total = (fields.replayed === "true" ? pages.first?.all_letters : pages.first?.all_waiting) ?? 0;
  const length = pages.next === null ? rows.length : Math.max(rows.length, total);
  const columns = useMemo(
    () => [
      { name: "received_at", title: "received (UTC)", width: 190, cell: (one) => clock(one.received_at) },
      { name: "reason", width: 150 },
      { name: "table", title: "source table", width: 170, cell: (one) => one.table ?? "–" },
      { name: "message", width: 480, cell: (one) => html`<span class="cut" title=${one.message.slice(0, 500)}>${one.message.slice(0, 300)}</span>` },
      { name: "event_bytes", title: "size", number: true, width: 90, cell: (one) => size(one.event_bytes) },
      { name: "batch", width: 270 },
      { name: "replayed_in", title: "replayed", width: 120, cell: (one) => (one.replayed_in ? html`<${State} of="replayed" />` : "no") },
    ],
    [],
  );
  const choose = (n) => rows[n] && setFields({ letter: nameOf(rows[n]) });
  if (!rows.length) return null;
  const chosen = rows[at];
  return html`<div class=${chosen ? "event" : undefined}>
    <section aria-label="Letters">
      <p class="faint">${counted(length, "letter")}${pages.next ? `, ${count(rows.length)} of them loaded: more come as you scroll` : ""}. Arrow keys move through them.</p>
      <${Newer} pages=${pages} />
      <${Sheet} label="Dead letters" columns=${columns} length=${length} row=${(n) => rows[n]} chosen=${at} onChoose=${choose} onSeen=${pages.seen} />
    </section>
    ${chosen ? html`<${Letter} key=${nameOf(chosen)} letter=${chosen} onDone=${pages.refresh} />` : null}
  </div>`;
}

function Letter({ letter, onDone }) {
  const answer = useLive(path`console/dead-letters/${letter.stream}/${letter.object}/${letter.row}`, { every: 0 });
  return html`<section class="panel" aria-labelledby="letter">
    <div class="tools"><h2 id="letter">The event</h2><span class="grow"></span><button type="button" class="quiet" onClick=${() => setFields({ letter: null })}>Close</button></div>
    <p><strong>${letter.reason}</strong>: ${letter.message}</p>
    <${Facts} label="The letter" of=${[
      ["received", html`<${Age} of=${letter.received_at} />`],
      ["batch", html`<a href=${link("streams", letter.stream, { view: "batches", batch: letter.batch })}>${letter.batch}</a>`],
      ["its place in it", letter.index], ["replayed in", letter.replayed_in ? html`<a href=${link("streams", letter.stream, { view: "batches", batch: letter.replayed_in })}>${letter.replayed_in}</a>` : undefined],
    ]} />
    <${Live} of=${answer}>${(value) => html`<${Original} answer=${value} onDone=${onDone} />`}<//>
  </section>`;
}

function Original({ answer, onDone }) {
  const actions = useLive("console/actions", { every: 0 }).value?.actions ?? [];
  const correct = actions.find((one) => one.name === "replay");
  const [text, setText] = useState(null);
  const [dialog, setDialog] = useState(false);
  const original = useMemo(() => (answer.is_json && answer.original !== null ? pretty(answer.original) : answer.original), [answer]);
  useEffect(() => setText(null), [answer]);
  const { letter } = answer;
  const wrong = text === null ? null : fault(text);
  return html`<p class="notice">${answer.advice}</p>
    ${answer.whole ? null : html`<p class="notice warn">Only its first MiB is shown: firn dead export has the rest.</p>`}
    ${original === null
      ? html`<p class="faint">The bytes are not UTF-8; Base64:</p><pre tabindex="0" aria-label="The event, Base64">${answer.base64}</pre>`
      : text === null
        ? html`<pre tabindex="0" aria-label="The event">${original}</pre>`
        : html`<label for="corrected" class="label">The event, corrected</label>
            <textarea id="corrected" spellcheck="false" value=${text} onInput=${(event) => setText(event.currentTarget.value)} aria-describedby="corrected-state"></textarea>
            <p id="corrected-state" class=${wrong ? "notice warn" : "faint"} aria-live="polite">${wrong ? `Not JSON yet: ${wrong}` : "JSON. The letter itself keeps its original bytes."}</p>`}
    ${correct && original !== null && answer.whole && !letter.replayed_in
      ? html`<div class="actions">
          ${text === null
            ? html`<button type="button" disabled=${!correct.allowed} onClick=${() => setText(original)}>Correct …</button>`
            : html`<button type="button" onClick=${() => setText(null)}>Discard</button><button type="button" class="primary" onClick=${() => setDialog(true)}>Replay corrected …</button>`}
        </div>`
      : null}
    ${dialog ? html`<${ActionDialog} action=${correct} fields=${{ stream: letter.stream, object: letter.object, row: String(letter.row), original: text }} onClose=${() => setDialog(false)} onDone=${onDone} />` : null}
    ${letter.replayed_in ? html`<p class="faint">It came again: <a href=${link("streams", letter.stream, { view: "batches", batch: letter.replayed_in })}>what became of it</a></p>` : null}`;
}

const PRETTY = 200_000; // characters of an event that get line breaks: more is for an editor
const DEEPEST = 40; // levels that are indented: an event of 900 levels would be a thousand times its size

/** JSON with line breaks, token by token, so that no number changes its digits. */
export function pretty(text) {
  if (text.length > PRETTY) return text;
  let depth = 0;
  const line = () => `\n${"  ".repeat(Math.min(depth, DEEPEST))}`;
  return text.replace(/"(?:[^"\\]|\\.)*"|[{[]\s*[}\]]|[{}[\],:]|\s+/g, (token) => {
    if (token[0] === '"') return token;
    if (/^\s/.test(token)) return "";
    if (token.length > 1) return token.replace(/\s/g, "");
    if ("{[".includes(token)) return (depth += 1), token + line();
    if ("}]".includes(token)) return (depth -= 1), line() + token;
    return token === "," ? token + line() : ": ";
  });
}

function fault(text) {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    return error.message;
  }
}
