// A stream: the way of its changes, its tables, epochs and batches, what a key stands for, pipelines, sources.
import { html, useState } from "../../vendor/preact.js";
import { Actions } from "../parts/actions.js";
import { Age, Empty, Facts, Failure, Live, Loading, Rows, State, Title, Views, Waits } from "../parts/blocks.js";
import { Chart } from "../parts/chart.js";
import { Flow } from "../parts/flow.js";
import { Newer, usePages } from "../parts/paging.js";
import { Sheet } from "../parts/sheet.js";
import { get, path, withQuery } from "../shell/api.js";
import { count, duration, shellWord, size } from "../shell/format.js";
import { useLive } from "../shell/live.js";
import { link } from "../shell/routes.js";
import { Batch } from "../streams/batch.js";

const VIEWS = [["", "Way"], ["batches", "Batches"], ["epochs", "Epochs"], ["receipts", "Receipts"], ["pipelines", "Pipelines"], ["sources", "Sources"]];

export function Page({ parts: [stream], fields }) {
  const page = useLive(stream ? path`console/streams/${stream}` : null, { every: 3_000 });
  const view = VIEWS.some(([one]) => one === fields.view) ? fields.view : "";
  if (!stream) return html`<${Title}>Streams<//><p>Choose a stream in the <a href="#/">overview</a>.</p>`;
  return html`<${Title} aside=${html`${page.value ? html`<${State} of=${page.value.row.state} />` : null}<span class="grow"></span><${Actions} scope="stream" fields=${{ stream }} onDone=${page.refresh} />`}>${stream}<//>
    <${Views} label="Views of the stream" at=${view} of=${VIEWS.map(([one, name]) => [one, name, link("streams", stream, { view: one })])} />
    ${view === "batches" ? html`<${Batches} stream=${stream} chosen=${fields.batch} />` : null}
    ${view === "epochs" ? html`<${Epochs} stream=${stream} />` : null}
    ${view === "receipts" ? html`<${Receipts} stream=${stream} />` : null}
    ${["", "pipelines", "sources"].includes(view)
      ? html`<${Live} of=${page} what="Looking at the stream">
          ${(value) => (view === "" ? html`<${Way} page=${value} />` : view === "pipelines" ? html`<${Pipelines} of=${value.pipelines} stream=${stream} />` : html`<${Sources} of=${value.sources} />`)}
        <//>`
      : null}`;
}

function Way({ page: { row, way, targets, notes } }) {
  const series = row.series;
  const start = Date.parse(series.start) / 1000;
  return html`${row.held.length ? html`<p class="notice bad">Quarantined: ${row.held.join(", ")}. <a href=${link("quarantine")}>What to do</a></p>` : null}
    ${notes.map((note, n) => html`<p key=${n} class="notice warn">${note}</p>`)}
    <section class="panel" aria-label="The way of the changes"><${Flow} way=${way} backlog=${row.backlog} /></section>
    <section class="panel" aria-labelledby="fresh">
      <h2 id="fresh">Freshness</h2>
      <${Facts} label="Freshness" of=${[
        ["oldest waits", html`<${Waits} since=${row.backlog.oldest_at} />`], ["p50", duration(row.p50)], ["p99", duration(row.p99)],
        ["events/s", row.events_per_second === null ? "–" : row.events_per_second.toFixed(1)],
        ["accepted", html`<${Age} of=${row.accepted_at} />`], ["committed", html`<${Age} of=${row.committed_at} />`],
        ["committed up to", row.committed_epoch ? `epoch ${row.committed_epoch}` : "–"], ["envelope", row.envelope],
      ]} />
      ${series.accepted.some((n) => n) || series.committed.some((n) => n)
        ? html`<${Events} start=${start} series=${series} />`
        : html`<${Empty}>No event in this window.<//>`}
    </section>
    <section class="panel" aria-labelledby="targets">
      <h2 id="targets">Tables</h2>
      ${targets.length
        ? html`<${Rows} label="Tables of the stream" keyOf=${(one) => one.table} rows=${targets} columns=${[
            ["table", (one) => html`<a href=${link("tables", one.table)}>${one.table}</a>`],
            ["committed up to", (one) => (one.upto ? `epoch ${one.upto}` : "–"), "number"],
            ["oldest waits", (one) => html`<${Waits} since=${one.oldest_at} />`, "number"],
            ["state", (one) => (one.held ? html`<${State} of="held" /> ${one.held}` : html`<${State} of="ok" />`)],
          ]} />`
        : html`<${Empty} command=${`firn flush ${shellWord(row.stream)}`}>No table yet: it is made with the first commit.<//>`}
    </section>`;
}

function Events({ start, series }) {
  const times = series.accepted.map((_, n) => start + n * series.step_seconds);
  const lines = [{ label: "accepted", values: series.accepted }, { label: "committed", values: series.committed }];
  return html`<${Chart} key=${`${start} ${series.accepted.join()} ${series.committed.join()}`} label="Events over time" x=${times} time series=${lines} height=${200} />
    ${series.whole ? null : html`<p class="faint">The window holds more commits than are looked at: its first steps lack some.</p>`}`;
}

function Batches({ stream, chosen }) {
  const pages = usePages(path`console/streams/${stream}/batches`, {}, "batches", { every: 3_000 });
  const [id, setId] = useState("");
  const at = pages.rows.findIndex((one) => one.id === chosen);
  const show = (batch) => (location.hash = link("streams", stream, { view: "batches", batch }));
  const columns = [
    { name: "id", title: "batch", width: 300, cell: (one) => html`<a href=${link("streams", stream, { view: "batches", batch: one.id })}>${one.id}</a>` },
    { name: "state", width: 120, cell: (one) => html`<${State} of=${one.state} />` },
    { name: "received_at", title: "received", width: 130, cell: (one) => html`<${Age} of=${one.received_at} />` },
    { name: "events", number: true, width: 110, cell: (one) => count(one.events) },
    { name: "bytes", title: "size", number: true, width: 110, cell: (one) => size(one.bytes) },
    { name: "epoch", number: true, width: 100, cell: (one) => one.epoch ?? "–" },
  ];
  return html`<form class="tools" onSubmit=${(event) => (event.preventDefault(), id && show(id.trim()))}>
      <label>Batch <input value=${id} onInput=${(event) => setId(event.currentTarget.value)} placeholder="its id" spellcheck="false" autocomplete="off" /></label>
      <button type="submit">What became of it</button>
    </form>
    ${chosen ? html`<${Batch} stream=${stream} id=${chosen} />` : null}
    ${pages.error ? html`<${Failure} error=${pages.error} again=${pages.refresh} />` : null}
    ${pages.loading ? html`<${Loading} />` : null}
    <${Newer} pages=${pages} />
    ${pages.rows.length
      ? html`<${Sheet} label=${`Batches of ${stream}`} columns=${columns} length=${pages.rows.length} row=${(n) => pages.rows[n]} chosen=${at} onChoose=${(n) => show(pages.rows[n].id)} onSeen=${pages.seen} />`
      : !pages.loading && !pages.error && html`<${Empty} command=${`firn send ${shellWord(stream)} FILE.ndjson`}>No batch is in the log. Send some events:<//>`}`;
}

function Epochs({ stream }) {
  const pages = usePages(path`console/streams/${stream}/epochs`, {}, "epochs", { every: 3_000 });
  const columns = [
    { name: "n", title: "epoch", number: true, width: 90 },
    { name: "state", width: 120, cell: (one) => html`<${State} of=${one.state} />` },
    { name: "sealed_at", title: "sealed", width: 130, cell: (one) => html`<${Age} of=${one.sealed_at} />` },
    { name: "committed_at", title: "committed", width: 130, cell: (one) => html`<${Age} of=${one.committed_at} />` },
    { name: "cut", number: true, width: 80, cell: (one) => one.cut ?? "–" },
    { name: "batches", number: true, width: 90, cell: (one) => count(one.batches) },
    { name: "events", number: true, width: 110, cell: (one) => count(one.events) },
    { name: "bytes", title: "size", number: true, width: 100, cell: (one) => size(one.bytes) },
    { name: "tables", title: "source tables", width: 360, cell: (one) => html`<span class="cut">${Object.entries(one.tables).map(([table, n]) => `${table} ${count(n)}`).join(", ")}</span>` },
  ];
  return html`${pages.error ? html`<${Failure} error=${pages.error} again=${pages.refresh} />` : null}
    ${pages.loading ? html`<${Loading} />` : null}
    <${Newer} pages=${pages} />
    ${pages.rows.length
      ? html`<${Sheet} label=${`Epochs of ${stream}`} columns=${columns} length=${pages.rows.length} row=${(n) => pages.rows[n]} onSeen=${pages.seen} />`
      : !pages.loading && !pages.error && html`<${Empty} command=${`firn flush ${shellWord(stream)}`}>No epoch is sealed yet: dispatch seals one a minute, or now:<//>`}`;
}

function Receipts({ stream }) {
  const [key, setKey] = useState("");
  const [header, setHeader] = useState("Idempotency-Key");
  const [found, setFound] = useState(null);
  const ask = async (event) => {
    event.preventDefault();
    setFound({ loading: true });
    try {
      setFound({ value: (await get(withQuery(path`console/streams/${stream}/receipts`, { key, header }))).value });
    } catch (error) {
      setFound({ error });
    }
  };
  return html`<section class="panel" aria-labelledby="receipts">
    <h2 id="receipts">Which batch does a key stand for?</h2>
    <p class="faint">A request with an idempotency key has a receipt: a retry gets the same batch and stages nothing twice.</p>
    <form class="tools" onSubmit=${ask}>
      <label>Header <select value=${header} onChange=${(event) => setHeader(event.currentTarget.value)}>${["Idempotency-Key", "webhook-id"].map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>
      <label>Key <input value=${key} onInput=${(event) => setKey(event.currentTarget.value)} required spellcheck="false" autocomplete="off" /></label>
      <button type="submit" class="primary">Look</button>
    </form>
    <div aria-live="polite">
      ${found?.loading ? html`<${Loading} />` : null}
      ${found?.error ? html`<${Failure} error=${found.error} />` : null}
      ${found?.value
        ? html`<${Facts} label="The receipt" of=${[
            ["batch", html`<a href=${link("streams", stream, { view: "batches", batch: found.value.batch })}>${found.value.batch}</a>`],
            ["received", html`<${Age} of=${found.value.received_at} />`], ["SHA-256 of the body", html`<code>${found.value.body_sha256}</code>`],
          ]} />`
        : null}
    </div>
  </section>`;
}

function Pipelines({ of, stream }) {
  if (!of.length) return html`<${Empty}>The stream ${stream} has no pipeline. Write one under <code>pipelines</code> in firn.yaml (docs/pipelines.md).<//>`;
  return of.map(
    (one) => html`<section class="panel" key=${one.name} aria-label=${`Pipeline ${one.name}`}>
      <h2>${one.name} <${State} of=${one.kind} /></h2>
      <${Facts} label=${`Pipeline ${one.name}`} of=${[
        ["from", one.source], ["into", one.kind === "files" ? one.target : html`<a href=${link("tables", one.target)}>${one.target}</a>`],
        ["has everything up to", one.upto === null ? "–" : `epoch ${one.upto}`],
      ]} />
      <pre tabindex="0">${one.sql}</pre>
    </section>`,
  );
}

function Sources({ of }) {
  if (!of.length) return html`<${Empty} command="firn sources add postgres://…">Nothing is pulled for this stream: its events are posted. To read a PostgreSQL:<//>`;
  return of.map(
    (one) => html`<section class="panel" key=${one.source} aria-label=${`Source ${one.source}`}>
      <h2>${one.source}</h2>
      ${one.stopped ? html`<p class="notice bad">${one.stopped}</p>` : null}
      ${one.notes.map((note, n) => html`<p key=${n} class="notice warn">${note}</p>`)}
      <${Facts} label=${`Source ${one.source}`} of=${[
        ["slot", one.slot], ["seen", html`<${Age} of=${one.seen_at} />`], ["not read yet", size(one.lag)], ["kept by the database", size(one.kept)],
        ["may still come", one.safe === null ? "no limit" : size(one.safe)], ["WAL", one.wal_status ?? "–"],
        ["read to the end", html`<${Age} of=${one.read_all_at} />`],
        ["oldest transaction", duration(one.oldest_transaction_seconds)],
      ]} />
    </section>`,
  );
}
