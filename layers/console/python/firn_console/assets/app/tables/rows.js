// A table's rows by page: of any moment, with what is not committed yet, some columns at a time.
import { html, useEffect, useMemo, useState } from "../../vendor/preact.js";
import { Empty, Failure, Loading } from "../parts/blocks.js";
import { Sheet } from "../parts/sheet.js";
import { path, withQuery } from "../shell/api.js";
import { count, sqlName } from "../shell/format.js";
import { useLive, useSettled } from "../shell/live.js";
import { link, setFields } from "../shell/routes.js";
import { selectOf, useQuery } from "./selecting.js";

const ROWS = 200; // of a page
const COLUMNS = 40; // at once: a table may have 10,000

/** `moment`: a snapshot id that is read instead of the address's `as_of`. */
export function RowView({ table, fields, moment }) {
  const at = moment ?? fields.as_of ?? null;
  const [fresh, setFresh] = useState(false);
  const [where, setWhere] = useState("");
  const [like, setLike] = useState("");
  const [page, setPage] = useState(0);
  const [part, setPart] = useState(0);
  const [asked, setAsked] = useState("");
  const settled = useSettled(like);
  const schema = useLive(withQuery(path`tables/${sqlName(table)}/schema`, { as_of: at }), { every: 0 });
  useEffect(() => setPage(0), [at, asked, fresh]);
  useEffect(() => setPart(0), [settled]);
  const columns = useMemo(() => choice(schema.value, settled), [schema.value, settled]);
  const some = useMemo(() => columns.slice(part * COLUMNS, (part + 1) * COLUMNS), [columns, part]);
  const order = schema.value?.key ?? [];
  const sql = some.length ? selectOf(table, { columns: [...new Set([...order, ...some.map((one) => one.name)])], where: asked, order, limit: ROWS + 1, offset: page * ROWS }) : null;
  const moments = at ? { as_of: at } : fresh ? { fresh: true } : {};
  const answer = useQuery(sql === null ? null : { sql, ...moments });
  const rows = answer.value?.rows ?? [];
  const shown = rows.slice(0, ROWS);
  const sheet = useMemo(() => columnsOf(answer.value?.columns ?? [], order), [answer.value]);
  const ask = (event) => {
    event.preventDefault();
    setAsked(where);
  };
  if (schema.error) return html`<${Failure} error=${schema.error} again=${schema.refresh} />`;
  return html`<form class="tools" onSubmit=${ask}>
      <label>WHERE <input type="search" value=${where} onInput=${(event) => setWhere(event.currentTarget.value)} placeholder="a condition in SQL, such as status = 'paid'" spellcheck="false" autocomplete="off" /></label>
      <button type="submit">Show</button>
      <label>Columns <input value=${like} onInput=${(event) => setLike(event.currentTarget.value)} placeholder="part of a name" size="14" spellcheck="false" autocomplete="off" /></label>
      ${at
        ? html`<span class="badge busy">as of ${at}</span>${moment ? null : html`<button type="button" onClick=${() => setFields({ as_of: null })}>Back to now</button>`}`
        : html`<label><input type="checkbox" checked=${fresh} onChange=${(event) => setFresh(event.currentTarget.checked)} />Fresh: also what is not committed yet</label>`}
    </form>
    ${schema.loading ? html`<${Loading} what="Reading the columns" />` : null}
    ${columns.length > COLUMNS ? html`<${Pager} what="columns" at=${part} of=${COLUMNS} total=${columns.length} onPage=${setPart} />` : null}
    ${answer.error ? html`<${Failure} error=${answer.error} />` : null}
    ${answer.link ? html`<p class="notice warn">These rows are too large for a page: choose fewer columns.</p>` : null}
    ${answer.loading && !answer.value ? html`<${Loading} what="Reading rows" />` : null}
    ${schema.value && !columns.length ? html`<${Empty}>No column is like this.<//>` : null}
    ${answer.value && !shown.length ? html`<${Empty}>${asked ? "No row fits the condition." : page ? "No more rows." : "No row at this moment."}<//>` : null}
    ${shown.length ? html`<div class=${answer.loading ? "busy" : undefined}><${Sheet} label=${`Rows of ${table}`} columns=${sheet} length=${shown.length} row=${(n) => shown[n]} /></div>` : null}
    <div class="tools">
      <${Pager} what="rows" at=${page} of=${ROWS} shown=${shown.length} more=${rows.length > ROWS} onPage=${setPage} />
      <span class="grow"></span>
      ${sql ? html`<a href=${link("query", { sql, as_of: at })}>Open as a query</a>` : null}
    </div>`;
}

/** The columns whose names hold `like`; not Firn's own ones, which only a query shows. */
function choice(schema, like) {
  const part = like.trim().toLowerCase();
  return (schema?.columns ?? []).filter((one) => !one.name.startsWith("_firn_") && one.name.toLowerCase().includes(part));
}

function Pager({ what, at, of, total, shown, more, onPage }) {
  const first = at * of + 1;
  const last = total === undefined ? at * of + shown : Math.min(total, (at + 1) * of);
  if (last < first) return at ? html`<button type="button" onClick=${() => onPage(at - 1)}>Previous ${what}</button>` : null;
  return html`<span class="actions">
    <button type="button" disabled=${at === 0} onClick=${() => onPage(at - 1)}>Previous<span class="unseen"> ${what}</span></button>
    <span role="status">${what} ${count(first)} to ${count(last)}${total === undefined ? "" : ` of ${count(total)}`}</span>
    <button type="button" disabled=${total === undefined ? !more : last >= total} onClick=${() => onPage(at + 1)}>Next<span class="unseen"> ${what}</span></button>
  </span>`;
}

const NUMBERS = /^(int|uint|float|double|decimal)/;

/** Columns of an answer as those of a sheet. */
export function columnsOf(columns, key = []) {
  return columns.map(({ name, type }) => ({
    name,
    key: key.includes(name),
    hint: `${name}: ${type}`,
    number: NUMBERS.test(type),
    width: widthOf(name, type),
  }));
}

function widthOf(name, type) {
  const typical = type.startsWith("timestamp") ? 220 : NUMBERS.test(type) ? 120 : 170;
  return Math.min(320, Math.max(typical, name.length * 8 + 30));
}
