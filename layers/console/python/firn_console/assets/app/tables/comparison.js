// What changed between two moments: each row that did, with the values before and after beside each other.
import { html, useMemo, useState } from "../../vendor/preact.js";
import { Empty, Failure, Live, Loading } from "../parts/blocks.js";
import { Sheet, shown } from "../parts/sheet.js";
import { path, withQuery } from "../shell/api.js";
import { cellText, clock, count, shellWord, sqlName } from "../shell/format.js";
import { useLive, useSettled } from "../shell/live.js";
import { setFields } from "../shell/routes.js";
import { Picture } from "./timeline.js";

const MOST = 5_000; // changes that are shown
const TONES = { insert: "good", update: "busy", delete: "bad" };

export function ComparisonView({ table, fields }) {
  const timeline = useLive(withQuery(path`tables/${sqlName(table)}/timeline`, { points: 500 }), { every: 0 });
  return html`<${Live} of=${timeline} what="Reading snapshots">
    ${(value) => (value.points.length ? html`<${Between} table=${table} timeline=${value} fields=${fields} />` : html`<${Empty} command="firn flush">The table has no snapshot yet.<//>`)}
  <//>`;
}

function Between({ table, timeline, fields }) {
  const { points } = timeline;
  const last = points.length - 1;
  const placeOf = (id, otherwise) => {
    const found = points.findIndex((one) => one.last === id);
    return found >= 0 ? found : otherwise;
  };
  const [from, setFrom] = useState(() => placeOf(fields.from, Math.max(0, last - 1)));
  const [to, setTo] = useState(() => placeOf(fields.to, last));
  const settled = useSettled(`${Math.min(from, to)} ${Math.max(from, to)}`, 300);
  const [low, high] = settled.split(" ").map(Number);
  const where = low === high ? null : withQuery(path`tables/${sqlName(table)}/changes`, { from: points[low].last, to: points[high].last, limit: MOST });
  const changes = useLive(where, { every: 0 });
  const slider = (id, name, place, set) => html`<div>
    <label for=${id}>${name} <strong>${clock(points[place].to)}</strong></label>
    <input id=${id} type="range" min="0" max=${last} value=${place} onInput=${(event) => set(Number(event.currentTarget.value))} onChange=${() => setFields({ from: points[Math.min(from, to)].last, to: points[Math.max(from, to)].last })} aria-valuetext=${`${clock(points[place].to)} UTC`} />
  </div>`;
  const command = `firn diff ${shellWord(table)} ${points[low].last} ${points[high].last}`;
  return html`<section class="panel" aria-label="The two moments">
      <${Picture} points=${points} chosen=${[from, to]} />
      <div class="beside">${slider("from", "From", from, setFrom)}${slider("to", "To", to, setTo)}</div>
    </section>
    ${where === null ? html`<${Empty}>Both are the same moment: move one of the sliders.<//>` : null}
    ${changes.error ? html`<${Failure} error=${changes.error} />` : null}
    ${where !== null && changes.loading ? html`<${Loading} what="Reading what changed" />` : null}
    ${where !== null && changes.value ? html`<${Changes} table=${table} answer=${changes.value} command=${command} />` : null}`;
}

function Changes({ table, answer, command }) {
  const rows = answer.rows ?? [];
  const columns = useMemo(() => beside(answer), [answer]);
  if (answer.url) return html`<p class="notice warn">These changes are too large for a page: choose nearer moments, or <code>${command}</code>.</p>`;
  if (!rows.length) return html`<${Empty}>No row changed between these moments.<//>`;
  const kinds = rows.reduce((counts, { _change: kind }) => ({ ...counts, [kind]: (counts[kind] ?? 0) + 1 }), {});
  return html`<p class="tools" role="status">${Object.entries(kinds).map(([kind, n]) => html`<span key=${kind} class=${`badge ${TONES[kind] ?? "plain"}`}>${kind} ${count(n)}</span>`)}<span class="grow"></span><code class="faint">${command}</code></p>
    <${Sheet} label=${`Changes of ${table}`} columns=${columns} length=${rows.length} row=${(n) => rows[n]} />`;
}

/** Columns of the sheet: those whose values differ in some row are there twice. */
function beside({ columns = [], rows = [], key = [] }) {
  const names = columns.map((one) => one.name).filter((name) => !name.startsWith("_") || key.includes(name));
  const keys = new Set(key);
  const differing = new Set(names.filter((name) => !keys.has(name) && rows.some((row) => differs(row, name))));
  const made = [{ name: "_change", title: "change", width: 90, cell: (row) => html`<span class=${`badge ${TONES[row._change] ?? "plain"}`}>${row._change}</span>` }];
  for (const name of [...key, ...names.filter((one) => !keys.has(one))]) {
    if (!differing.has(name)) made.push({ name, width: 150, cell: (row) => shown(row[name]) });
    else
      made.push(
        { name: `${name} before`, title: `${name} · before`, width: 170, cell: (row) => html`<span class="before">${side(row, name, row._change === "delete" ? row[name] : row._before?.[name], row._change !== "insert")}</span>` },
        { name: `${name} after`, title: `${name} · after`, width: 170, cell: (row) => html`<span class="after">${side(row, name, row[name], row._change !== "delete")}</span>` },
      );
  }
  return made;
}

const differs = (row, name) => row._change !== "update" || cellText(row[name]) !== cellText(row._before?.[name]);

function side(row, name, value, exists) {
  if (!exists) return null;
  return html`<span class=${differs(row, name) ? "differs" : undefined}>${shown(value)}</span>`;
}
