// Job runs: what ran, what failed and why, and the end of a run's log.
import { html } from "../../vendor/preact.js";
import { Age, Command, Empty, Facts, Failure, Live, Loading, State, Title } from "../parts/blocks.js";
import { Newer, usePages } from "../parts/paging.js";
import { Sheet } from "../parts/sheet.js";
import { path } from "../shell/api.js";
import { count, duration } from "../shell/format.js";
import { useLive } from "../shell/live.js";
import { link, setFields } from "../shell/routes.js";

const STATES = ["waiting", "running", "succeeded", "failed", "cancelled", "unknown"];

export function Page({ parts: [run], fields }) {
  return run ? html`<${Run} id=${run} />` : html`<${Runs} fields=${fields} />`;
}

function Runs({ fields }) {
  const pages = usePages("console/jobs", { stream: fields.stream, state: fields.state }, "runs", { every: 3_000 });
  const streams = useLive("console/overview", { every: 0 }).value?.streams ?? [];
  const columns = [
    { name: "state", width: 110, cell: (one) => html`<${State} of=${one.state} />` },
    { name: "name", title: "run", width: 260, cell: (one) => (one.id ? html`<a href=${link("jobs", one.id)}>${one.name || one.id}</a>` : html`<span class="cut">${one.name}</span>`) },
    { name: "kind", width: 110 },
    { name: "stream", width: 130, cell: (one) => (one.stream ? html`<a href=${link("streams", one.stream)}>${one.stream}</a>` : "–") },
    { name: "epochs", width: 110, cell: (one) => epochs(one) },
    { name: "started_at", title: "started", width: 120, cell: (one) => html`<${Age} of=${one.started_at} />` },
    { name: "seconds", title: "took", number: true, width: 90, cell: (one) => duration(one.seconds) },
    { name: "detail", title: "how far, or why", width: 420, cell: (one) => html`<span class="cut" title=${told(one)}>${told(one)}</span>` },
  ];
  return html`<${Title}>Jobs<//>
    <div class="tools">
      <label>Stream <select value=${fields.stream ?? ""} onChange=${(event) => setFields({ stream: event.currentTarget.value })}><option value="">all</option>${streams.map((one) => html`<option key=${one.stream} value=${one.stream}>${one.stream}</option>`)}</select></label>
      <label>State <select value=${fields.state ?? ""} onChange=${(event) => setFields({ state: event.currentTarget.value })}><option value="">all</option>${STATES.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>
    </div>
    ${pages.first && !pages.first.from_emr ? html`<p class="notice">Only what the log tells of is shown: ${pages.first.why_not ?? "EMR Serverless was not asked"}.</p>` : null}
    ${pages.error ? html`<${Failure} error=${pages.error} again=${pages.refresh} />` : null}
    ${pages.loading ? html`<${Loading} />` : null}
    <${Newer} pages=${pages} />
    ${pages.rows.length
      ? html`<${Sheet} label="Job runs" columns=${columns} length=${pages.rows.length} row=${(n) => pages.rows[n]} onSeen=${pages.seen} />`
      : !pages.loading && !pages.error && html`<${Empty} command="firn flush">No job ran yet. One starts when changes wait; or now:<//>`}`;
}

/** How far a run is, else why it ended so. */
function told({ progress, detail }) {
  if (!progress) return detail ?? "";
  const left = progress.seconds_left === null ? "" : `, about ${duration(progress.seconds_left)} left`;
  return `${progress.stage} ${count(progress.rows)} of ${count(progress.planned)} rows${left}`;
}

function epochs({ first, last }) {
  if (first === null) return "–";
  return first === last ? String(first) : `${first} to ${last}`;
}

function Run({ id }) {
  const answer = useLive(path`console/jobs/${id}`, { every: 3_000 });
  return html`<p><a href=${link("jobs")}>All jobs</a></p>
    <${Title} aside=${answer.value ? html`<${State} of=${answer.value.run.state} />` : null}>${answer.value?.run.name ?? id}<//>
    <${Live} of=${answer}>
      ${({ run, log, log_at: logAt }) => html`
        ${run.detail ? html`<p class=${run.state === "failed" ? "notice bad" : "notice"}>${run.detail}</p>` : null}
        <section class="panel" aria-label="The run">
          <${Facts} label="The run" of=${[
            ["run", html`<code>${run.id ?? "–"}</code>`], ["kind", run.kind],
            ["stream", run.stream ? html`<a href=${link("streams", run.stream)}>${run.stream}</a>` : "–"], ["epochs", epochs(run)],
            ["attempt", run.attempt ?? "–"], ["started", html`<${Age} of=${run.started_at} />`], ["ended", html`<${Age} of=${run.ended_at} />`],
            ["took", duration(run.seconds)], ["committed up to", run.newest_cut === null ? "–" : `epoch ${run.newest_cut}`],
          ]} />
          <${Stages} run=${run} />
        </section>
        <section class="panel" aria-labelledby="log">
          <h2 id="log">End of the log</h2>
          ${log ? html`<pre tabindex="0" aria-label="Log">${log}</pre>` : html`<${Empty}>The log is not here${logAt ? html`: it is at <code>${logAt}</code>` : ""}.<//>`}
          ${log && logAt ? html`<p class="faint">The whole log: <code>${logAt}</code></p>` : null}
        </section>
        ${run.state === "failed" ? html`<${Command} text="firn status" />` : null}`}
    <//>`;
}

/** How far a commit is: asked for, running, its epochs one by one. */
function Stages({ run }) {
  if (run.first === null || run.last === null) return null;
  const all = run.last - run.first + 1;
  const done = run.newest_cut === null ? 0 : Math.max(0, Math.min(all, run.newest_cut - run.first + 1));
  return html`<p><label>Epochs committed: ${done} of ${all} <meter min="0" max=${all} value=${done}>${done} of ${all}</meter></label></p>
    <${Progress} of=${run.progress} run=${run} />`;
}

/** How far the commit is that runs, as its job said a few seconds ago. */
function Progress({ of, run }) {
  if (!of) return null;
  const what = of.stream === run.stream ? "" : ` (stream ${of.stream})`;
  const tables = of.tables_planned > 1 ? `, ${count(of.tables)} of ${count(of.tables_planned)} tables committed` : "";
  return html`<p><label>Now${what}: ${told(run)}${tables} <meter min="0" max=${Math.max(1, of.planned)} value=${of.rows}>${of.rows} of ${of.planned}</meter></label></p>`;
}
