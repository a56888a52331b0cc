// Tables: the list of all, and one table with its views.
import { html, useMemo, useState } from "../../vendor/preact.js";
import { Actions } from "../parts/actions.js";
import { Age, Empty, Facts, Failure, Loading, State, Title, Views } from "../parts/blocks.js";
import { usePages } from "../parts/paging.js";
import { Sheet } from "../parts/sheet.js";
import { path } from "../shell/api.js";
import { clock, count, counted, duration, size, tableName } from "../shell/format.js";
import { useLive, useSettled } from "../shell/live.js";
import { link, setFields } from "../shell/routes.js";
import { ColumnView } from "../tables/columns.js";
import { ComparisonView } from "../tables/comparison.js";
import { RowView } from "../tables/rows.js";
import { TimeView } from "../tables/timeline.js";
import { UpkeepView } from "../tables/upkeep.js";

const VIEWS = [["", "Rows"], ["time", "Time travel"], ["changes", "What changed"], ["columns", "Columns"], ["upkeep", "Files and upkeep"]];
const STATES = ["held", "unfed", "due", "ok", "unknown"];
const MOST_ASKED = 200; // tables whose sizes are read from their metadata, where no job has looked

export function Page({ parts: [table], fields }) {
  return table ? html`<${Table} table=${table} fields=${fields} />` : html`<${Tables} fields=${fields} />`;
}

function Table({ table, fields }) {
  const about = useLive(path`console/tables/${table}`, { every: 5_000 });
  const view = VIEWS.some(([one]) => one === fields.view) ? fields.view : "";
  const row = about.value?.row;
  return html`<${Title} aside=${html`${row ? html`<${State} of=${row.state} />` : null}<span class="grow"></span><${Actions} scope="table" fields=${{ table }} onDone=${about.refresh} />`}>${table}<//>
    ${about.value?.held ? html`<p class="notice bad">Quarantined: ${about.value.held.message} <a href=${link("quarantine")}>What to do</a></p>` : null}
    ${about.value?.view ? html`<${ViewNotice} of=${about.value.view} table=${table} />` : null}
    <${Views} label="Views of the table" at=${view} of=${VIEWS.map(([one, name]) => [one, name, link("tables", table, { view: one })])} />
    ${view === "" ? html`<${RowView} table=${table} fields=${fields} />` : null}
    ${view === "time" ? html`<${TimeView} table=${table} fields=${fields} />` : null}
    ${view === "changes" ? html`<${ComparisonView} table=${table} fields=${fields} />` : null}
    ${view === "columns" ? html`<${ColumnView} table=${table} fields=${fields} />` : null}
    ${view === "upkeep" ? html`<${UpkeepView} about=${about} table=${table} />` : null}`;
}

/** How a view is: what it is of, how old, and why it is not refreshed. */
function ViewNotice({ of: { stream, cut, every, refreshed_at, behind_seconds, due, waits_for, quarantined, tries, error }, table }) {
  const cuts = Object.entries(cut).map(([name, n]) => `${name} ${n}`).join(", ");
  return html`
    ${tries ? html`<p class=${`notice ${quarantined ? "bad" : "warn"}`}>${quarantined ? "Quarantined" : "Could not be refreshed"}, ${counted(tries, "try", "tries")}: ${error ?? "its jobs died while they refreshed it"}. Its rows stay as they were. <code>firn resume ${stream} ${table}</code> tries at once.</p>` : null}
    <${Facts} label="The view" of=${[
      ["of cut", cuts || "none yet"],
      ["refreshed", html`<${Age} of=${refreshed_at} />`],
      ["behind", behind_seconds === null ? "no" : duration(behind_seconds)],
      ["refreshed by", html`<a href=${link("streams", stream)}>${stream}</a>${every ? ` every ${duration(every)}` : " at each cut"}`],
      ["next", waits_for ? `waits for ${waits_for}` : due ? clock(due) : "at the next change"],
    ]} />`;
}

function Tables({ fields }) {
  const [like, setLike] = useState(fields.like ?? "");
  const wanted = useSettled(like);
  const pages = usePages("console/tables", { like: wanted, stream: fields.stream, state: fields.state, limit: 500 }, "tables");
  const few = pages.first && pages.first.total <= MOST_ASKED && pages.rows.some((one) => one.rows === null);
  const summaries = useLive(few ? "tables" : null, { every: 0 });
  const known = useMemo(() => new Map((summaries.value?.tables ?? []).map((one) => [tableName(one.name), one])), [summaries.value]);
  const columns = useMemo(() => columnsOf(known), [known]);
  const total = pages.first?.total ?? 0;
  return html`<${Title}>Tables<//>
    <div class="tools">
      <label>Find <input type="search" value=${like} onInput=${(event) => setLike(event.currentTarget.value)} placeholder="part of a name" /></label>
      <label>State <select value=${fields.state ?? ""} onChange=${(event) => setFields({ state: event.currentTarget.value })}><option value="">all</option>${STATES.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>
      ${pages.first ? html`<span class="faint" role="status">${counted(total, "table")}</span>` : null}
    </div>
    ${pages.error ? html`<${Failure} error=${pages.error} again=${pages.refresh} />` : null}
    ${pages.loading ? html`<${Loading} what="Looking for tables" />` : null}
    ${pages.first && !total ? html`<${NoTable} filtered=${wanted || fields.state || fields.stream} />` : null}
    ${total ? html`<${Sheet} label="Tables" columns=${columns} length=${Math.max(pages.rows.length, total)} row=${(n) => pages.rows[n]} onSeen=${pages.seen} height=${`min(calc(100vh - 12rem), ${(Math.max(pages.rows.length, total) + 1) * 30 + 20}px)`} />` : null}`;
}

function NoTable({ filtered }) {
  return filtered
    ? html`<${Empty}>No table is like this. <a href=${link("tables")} onClick=${() => location.reload()}>Show all</a><//>`
    : html`<${Empty} command="firn send STREAM FILE.ndjson && firn flush">No table yet. Send events to a stream, and commit them:<//>`;
}

function columnsOf(known) {
  const of = (row, name, summary) => row[name] ?? known.get(row.table)?.[summary];
  return [
    { name: "table", width: 300, cell: (one) => html`<a class="cut" href=${link("tables", one.table)}>${one.table}</a>` },
    { name: "state", width: 100, cell: (one) => html`<${State} of=${one.state} />` },
    { name: "rows", number: true, width: 120, cell: (one) => count(of(one, "rows", "rows")) },
    { name: "bytes", title: "size", number: true, width: 100, cell: (one) => size(of(one, "bytes", "size_bytes")) },
    { name: "files", number: true, width: 80, cell: (one) => count(of(one, "files", "files")) },
    { name: "streams", title: "stream", width: 140, cell: (one) => one.streams.map((stream, n) => html`${n ? ", " : ""}<a key=${stream} href=${link("streams", stream)}>${stream}</a>`) },
    { name: "updated", title: "changed", width: 120, cell: (one) => html`<${Age} of=${known.get(one.table)?.updated_at ?? one.measured_at} />` },
    { name: "due", title: "maintenance due", width: 220, cell: (one) => one.due.join(", ") || "–" },
  ];
}
