// How a table is kept: files, deletes, what maintenance is due, storage classes and what they cost.
import { html } from "../../vendor/preact.js";
import { Age, Empty, Facts, Live, Rows, State } from "../parts/blocks.js";
import { count, size } from "../shell/format.js";
import { link } from "../shell/routes.js";

export function UpkeepView({ about }) {
  return html`<${Live} of=${about}>
    ${({ row, feeds, health, tiers, prices, notes }) => html`
      ${notes.map((note, n) => html`<p key=${n} class="notice warn">${note}</p>`)}
      ${health ? html`<${Health} health=${health} due=${row.due} />` : html`<${Empty} command="firn tables">No job has looked at the files yet: that comes with the table's sixteenth commit, or with maintenance. What its metadata says:<//>`}
      <div class="panels">
        <${Cost} tiers=${tiers} prices=${prices} />
        <section class="panel" aria-labelledby="feeds">
          <h2 id="feeds">What fills it</h2>
          ${feeds.length
            ? html`<${Rows} label="What fills the table" rows=${feeds} columns=${[
                ["stream", (one) => html`<a href=${link("streams", one.stream)}>${one.stream}</a>`], ["source", (one) => one.source],
                ["mode", (one) => one.mode], ["key", (one) => one.key.join(", ") || "–"], ["pipeline", (one) => one.pipeline ?? "–"],
              ]} />`
            : html`<${Empty}>No rule of firn.yaml fills it.<//>`}
          ${feeds.filter((one) => one.sql).map((one) => html`<pre key=${one.sql}>${one.sql}</pre>`)}
        </section>
      </div>
      ${health?.partitions?.length ? html`<${Partitions} of=${health.partitions} />` : null}`}
  <//>`;
}

function Health({ health, due }) {
  return html`<section class="panel" aria-labelledby="health">
    <h2 id="health">Health</h2>
    <${Facts} label="Health" of=${[
      ["looked at", html`<${Age} of=${health.measured_at} />`], ["data files", count(health.files)], ["size", size(health.bytes)], ["rows", count(health.rows)],
      ["small files", count(health.small)], ["delete files", count(health.delete_files)], ["rows deleted in files", count(health.deleted)],
      ["snapshots", count(health.snapshots)], ["manifests", count(health.manifests)], ["metadata", size(health.metadata_bytes)],
      ["cold", `${count(health.cold_files)} files, ${size(health.cold_bytes)}`],
    ]} />
    <h3>Maintenance that is due</h3>
    ${due.length ? html`<ul>${due.map((one) => html`<li key=${one}><${State} of="due" /> ${one}${health.due?.[one] ? `: ${health.due[one]}` : ""}</li>`)}</ul>` : html`<p>Nothing to do.</p>`}
    <${Rows} label="What it owes" rows=${health.debts ?? []} keyOf=${(one) => one.what} columns=${[
      ["what it owes", (one) => one.what], ["now", (one) => html`<span class=${one.over ? "badge warn" : undefined}>${one.what.startsWith("bytes") ? size(one.value) : count(one.value)}</span>`, "number"],
      ["limit", (one) => one.limit], ["next", (one) => one.next],
    ]} />
  </section>`;
}

const dollars = (value) => (value > 0 && value < 0.01 ? "under $0.01" : `$${value.toFixed(2)}`);

function Cost({ tiers, prices }) {
  const total = tiers.reduce((sum, one) => sum + one.dollars, 0);
  const bytes = Math.max(1, ...tiers.map((one) => one.bytes));
  return html`<section class="panel" aria-labelledby="cost">
    <h2 id="cost">Storage and its cost</h2>
    ${tiers.length
      ? html`<div class="bars">${tiers.map((one) => html`<div key=${one.storage_class}><span>${one.storage_class}</span><meter min="0" max=${bytes} value=${one.bytes} aria-label=${`Bytes in ${one.storage_class}`}>${size(one.bytes)}</meter><span>${size(one.bytes)} · ${dollars(one.dollars)}</span></div>`)}</div>
          <p class="faint">${dollars(total)} a month, by ${prices}.</p>`
      : html`<p class="faint">No file is known yet.</p>`}
  </section>`;
}

function Partitions({ of }) {
  return html`<section class="panel" aria-labelledby="partitions">
    <h2 id="partitions">Partitions that owe most</h2>
    <${Rows} label="Partitions that owe most" rows=${of} columns=${[
      ["partition", (one) => one.name || "whole table"], ["files", (one) => count(one.files), "number"], ["size", (one) => size(one.bytes), "number"],
      ["small", (one) => count(one.small), "number"], ["delete files", (one) => count(one.delete_files), "number"], ["deleted rows", (one) => count(one.deleted), "number"],
      ["to rewrite", (one) => size(one.rewrite_bytes), "number"],
    ]} />
  </section>`;
}
