// The overview: what needs a person first, then the streams, then the tables.
import { html, useState } from "../../vendor/preact.js";
import { Actions } from "../parts/actions.js";
import { Age, Command, Empty, Facts, Live, Rows, State, Title, Waits } from "../parts/blocks.js";
import { Sparkline } from "../parts/sparkline.js";
import { NONE, count, counted, duration, size } from "../shell/format.js";
import { useLive } from "../shell/live.js";
import { link, linkTo } from "../shell/routes.js";

const WINDOWS = [["900", "15 minutes"], ["3600", "1 hour"], ["21600", "6 hours"], ["86400", "1 day"]];

export function Page({ fields }) {
  const seconds = WINDOWS.some(([one]) => one === fields.window) ? fields.window : null;
  const overview = useLive(seconds ? `console/overview?window=${seconds}` : "console/overview", { every: 5_000 });
  const paused = useLive("console/session", { every: 5_000 }).value?.paused_since;
  return html`<${Title} aside=${html`<${Actions} scope="stack" only=${paused ? ["unpause"] : ["pause"]} onDone=${overview.refresh} />`}>Overview<//>
    <${Live} of=${overview} what="Looking at the streams">${(value) => html`<${Shown} overview=${value} seconds=${seconds ?? "3600"} />`}<//>`;
}

function Shown({ overview, seconds }) {
  const { needs, streams, tables, unread } = overview;
  return html`<${Needs} needs=${needs} />
    ${Object.entries(unread).map(([stream, why]) => html`<p key=${stream} class="notice warn"><strong>${stream}</strong> could not be read in time: ${why}</p>`)}
    <section class="panel" aria-labelledby="streams">
      <div class="tools">
        <h2 id="streams">Streams</h2>
        <span class="grow"></span>
        <label>over the last <select value=${seconds} onChange=${(event) => (location.hash = link({ window: event.currentTarget.value }))}>${WINDOWS.map(([one, name]) => html`<option key=${one} value=${one}>${name}</option>`)}</select></label>
      </div>
      ${streams.length ? html`<${Streams} streams=${streams} />` : html`<${Empty} command="firn init">No stream is configured yet. A first firn.yaml:<//>`}
    </section>
    <section class="panel" aria-labelledby="tables">
      <h2 id="tables">Tables</h2>
      ${tables.tables
        ? html`<${Facts} label="All tables" of=${[
              ["tables", count(tables.tables)], ["rows", tables.bytes ? count(tables.rows) : NONE], ["size", tables.bytes ? size(tables.bytes) : NONE],
              ["quarantined", count(tables.held)], ["maintenance due", count(tables.due)],
            ]} />
            ${tables.bytes ? null : html`<p class="faint">Rows and size are counted once a job has looked: with the sixteenth commit.</p>`}
            <p><a href=${link("tables")}>All tables</a></p>`
        : html`<${Empty} command="firn flush">No table yet: post rows to a stream, then commit them.<//>`}
    </section>`;
}

function Needs({ needs }) {
  const [all, setAll] = useState(false);
  if (!needs.length) return html`<p class="notice good">Nothing needs you: no failed job, no quarantine, no dead letter waits.</p>`;
  const shown = all ? needs : needs.slice(0, 6);
  return html`<section aria-labelledby="needs">
    <h2 id="needs">Needs you <span class="badge bad">${needs.length}</span></h2>
    <ul class="needs">
      ${shown.map(
        (one) => html`<li key=${`${one.kind} ${one.stream} ${one.subject}`} class=${`need ${one.severity}`}>
          <${State} of=${one.severity} />
          <p><strong>${one.subject}</strong> ${one.text}</p>
          <a href=${linkTo(one.link)}>Look<span class="unseen"> at ${one.subject}</span></a>
          ${one.command ? html`<${Command} text=${one.command} />` : null}
        </li>`,
      )}
    </ul>
    ${needs.length > shown.length ? html`<p><button type="button" onClick=${() => setAll(true)}>Show all ${needs.length}</button></p>` : null}
  </section>`;
}

function Streams({ streams }) {
  const columns = [
    ["stream", (one) => html`<a href=${link("streams", one.stream)}>${one.stream}</a>`],
    ["state", (one) => html`<${State} of=${one.state} />`],
    ["events over time", (one) => html`<${Sparkline} of=${one.series.accepted} label=${`accepted by ${one.stream}`} />`],
    ["events/s", (one) => (one.events_per_second === null ? "–" : one.events_per_second.toFixed(one.events_per_second < 10 ? 1 : 0)), "number"],
    ["waiting", (one) => count(one.backlog.staged_events + one.backlog.sealed_events), "number"],
    ["oldest waits", (one) => html`<${Waits} since=${one.backlog.oldest_at} />`, "number"],
    ["p50", (one) => duration(one.p50), "number"],
    ["p99", (one) => duration(one.p99), "number"],
    ["committed", (one) => html`<${Age} of=${one.committed_at} />`],
    ["tables", (one) => count(one.tables), "number"],
    ["dead letters", (one) => (one.dead_waiting ? html`<a href=${link("dead-letters", { stream: one.stream })}>${counted(one.dead_waiting, "letter")}</a>` : "0"), "number"],
  ];
  return html`<${Rows} label="Streams" columns=${columns} rows=${streams} keyOf=${(one) => one.stream} />`;
}
