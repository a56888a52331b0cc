// A table's columns with their field ids, and what they were before.
import { html, useMemo, useState } from "../../vendor/preact.js";
import { Empty, Facts, Failure, Loading } from "../parts/blocks.js";
import { usePages } from "../parts/paging.js";
import { Sheet } from "../parts/sheet.js";
import { path } from "../shell/api.js";
import { clock, count, counted, sqlName } from "../shell/format.js";
import { useSettled } from "../shell/live.js";

export function ColumnView({ table, fields }) {
  const [like, setLike] = useState("");
  const wanted = useSettled(like);
  const [chosen, setChosen] = useState(null);
  const pages = usePages(path`tables/${sqlName(table)}/columns`, { as_of: fields.as_of, like: wanted, limit: 500 }, "columns", { every: 0 });
  const first = pages.first;
  const columns = useMemo(() => columnsOf(first?.key ?? []), [first]);
  const one = pages.rows[chosen];
  return html`<div class="tools">
      <label>Find <input type="search" value=${like} onInput=${(event) => (setLike(event.currentTarget.value), setChosen(null))} placeholder="part of a name" /></label>
      ${first ? html`<span class="faint" role="status">${counted(first.total, "column")}</span>` : null}
    </div>
    ${first ? html`<${Facts} label="The schema" of=${[["key", first.key.join(", ") || "none"], ["schema", first.schema_id], ["partitions", first.partition.map((part) => `${part.transform}(${part.source})`).join(", ") || "none"]]} />` : null}
    ${pages.error ? html`<${Failure} error=${pages.error} again=${pages.refresh} />` : null}
    ${pages.loading ? html`<${Loading} what="Reading columns" />` : null}
    ${first && !pages.rows.length ? html`<${Empty}>No column is like this.<//>` : null}
    ${one ? html`<${History} column=${one} />` : null}
    ${pages.rows.length ? html`<${Sheet} label=${`Columns of ${table}`} columns=${columns} length=${pages.next === null ? pages.rows.length : Math.max(pages.rows.length, first.total)} row=${(n) => pages.rows[n]} chosen=${chosen ?? -1} onChoose=${setChosen} onSeen=${pages.seen} />` : null}`;
}

function columnsOf(key) {
  return [
    { name: "id", title: "field id", number: true, width: 90 },
    { name: "name", width: 260, cell: (one) => html`<span class="cut">${one.name}${key.includes(one.name) ? html`<span class="key"> key</span>` : null}</span>` },
    { name: "type", width: 200 },
    { name: "required", width: 100, cell: (one) => (one.required ? "required" : "optional") },
    { name: "history", width: 220, cell: (one) => (one.dropped_at ? `dropped ${clock(one.dropped_at)}` : one.history.length > 1 ? `changed ${counted(one.history.length - 1, "time")}` : "as it was made") },
    { name: "doc", title: "comment", width: 260, cell: (one) => html`<span class="cut">${one.doc ?? ""}</span>` },
  ];
}

function History({ column }) {
  return html`<section class="panel" aria-label=${`History of ${column.name}`}>
    <h2>${column.name} <span class="faint">field ${count(column.id)}</span></h2>
    <ol class="lines">
      ${column.history.map((was, n) => html`<li key=${n}>${was.at ? `${clock(was.at)} UTC` : "at first"}: ${was.name} ${was.type}${was.required ? ", required" : ""} (schema ${was.schema_id})</li>`)}
      ${column.dropped_at ? html`<li>${clock(column.dropped_at)} UTC: dropped</li>` : null}
    </ol>
  </section>`;
}
