// Queries: an editor that completes tables and columns, what was asked before, the result as a table, a chart or a file.
import { html, useEffect, useMemo, useRef, useState } from "../../vendor/preact.js";
import { Command, Empty, Failure, Loading, Title } from "../parts/blocks.js";
import { Chart } from "../parts/chart.js";
import { Sheet, inOrder } from "../parts/sheet.js";
import { announce } from "../shell/announcer.js";
import { download, get, isLink, path, post } from "../shell/api.js";
import { count, counted, shellWord, size, sqlName, tableName } from "../shell/format.js";
import { useLive } from "../shell/live.js";
import { link, setFields } from "../shell/routes.js";
import { remember, remembered } from "../shell/theme.js";
import { columnsOf } from "../tables/rows.js";

const HISTORY = "firn.queries";
const KEPT = 50;
const FORMATS = ["csv", "json", "parquet", "arrow"];

export function Page({ fields }) {
  const [text, setText] = useState(fields.sql ?? past()[0] ?? "");
  const [fresh, setFresh] = useState(fields.fresh === "1");
  const [asOf, setAsOf] = useState(fields.as_of ?? "");
  const [state, setState] = useState({});
  const [queries, setQueries] = useState(past);
  const editor = useRef(null);
  const running = useRef(null);
  const body = (sql) => ({ sql, ...(asOf ? { as_of: asOf } : fresh ? { fresh: true } : {}) });
  const run = async (sql = editor.current?.selected() ?? text) => {
    if (!sql.trim()) return;
    running.current?.abort();
    const stopped = new AbortController();
    running.current = stopped;
    setState({ running: true });
    setQueries(keep(sql.trim()));
    setFields({ sql: sql.length < 2_000 ? sql : null, as_of: asOf, fresh: fresh && !asOf ? "1" : null });
    const began = performance.now();
    try {
      const value = await post("query", body(sql), { signal: stopped.signal });
      const seconds = (performance.now() - began) / 1000;
      announce(isLink(value) ? "The result is a file" : counted(value.rows.length, "row"));
      setState({ value, seconds, asked: body(sql) });
    } catch (error) {
      if (error.name !== "AbortError") setState({ error });
    }
  };
  const latest = useRef(run);
  latest.current = run;
  useEffect(() => () => running.current?.abort(), []);
  const stop = () => {
    running.current?.abort();
    setState({});
    announce("Stopped");
  };
  return html`<${Title}>Query<//>
    <${Editor} text=${text} onText=${setText} onRun=${(sql) => latest.current(sql)} handle=${editor} />
    <div class="tools">
      ${state.running ? html`<button type="button" onClick=${stop}>Stop</button>` : html`<button type="button" class="primary" onClick=${() => run()}>Run <span class="unseen">the query</span><span aria-hidden="true">⌘↵</span></button>`}
      <label>As of <input value=${asOf} onInput=${(event) => setAsOf(event.currentTarget.value)} placeholder="now; a time, snapshot, tag" spellcheck="false" autocomplete="off" /></label>
      <label><input type="checkbox" checked=${fresh} disabled=${asOf !== ""} onChange=${(event) => setFresh(event.currentTarget.checked)} />Fresh: also what is not committed yet</label>
    </div>
    <div aria-busy=${Boolean(state.running)}>
      ${state.running ? html`<${Loading} what="Running" />` : null}
      ${state.error ? html`<${Failure} error=${state.error} />` : null}
      ${state.value ? html`<${Result} answer=${state.value} seconds=${state.seconds} asked=${state.asked} />` : null}
      ${!state.running && !state.error && !state.value ? html`<${Empty} command=${`firn query ${shellWord("SELECT …")}`}>One SELECT in DuckDB's dialect over any tables. Ctrl+Enter runs it, or what is selected of it. In a terminal:<//>` : null}
    </div>
    ${queries.length
      ? html`<section class="panel" aria-labelledby="past">
          <div class="tools"><h2 id="past">Asked before</h2><span class="grow"></span><button type="button" class="quiet" onClick=${() => setQueries(forget())}>Forget them</button></div>
          <div class="history">${queries.map((one, n) => html`<button key=${`${n} ${one}`} type="button" onClick=${() => (editor.current?.replace(one), setText(one), editor.current?.focus())}>${one.replace(/\s+/g, " ").slice(0, 300)}</button>`)}</div>
        </section>`
      : null}`;
}

function past() {
  try {
    const found = JSON.parse(remembered(HISTORY) ?? "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one === "string") : [];
  } catch {
    return [];
  }
}

function keep(sql) {
  const all = [sql, ...past().filter((one) => one !== sql)].slice(0, KEPT);
  remember(HISTORY, JSON.stringify(all));
  return all;
}

function forget() {
  remember(HISTORY, "[]");
  return [];
}

/** CodeMirror, once it is loaded; until then, and if it can't be, a plain field that works the same. */
function Editor({ text, onText, onRun, handle }) {
  const host = useRef(null);
  const [state, setState] = useState("plain");
  const tables = useLive("console/tables?limit=500", { every: 0 }).value?.tables;
  const schema = useRef({});
  useEffect(() => {
    let gone = false;
    import("../../vendor/editor.js").then(({ createEditor }) => {
      if (gone) return;
      handle.current = createEditor(host.current, {
        text, label: "SQL", hint: "SELECT … FROM …", run: onRun, changed: onText,
      });
      setState("rich");
    }, () => {});
    return () => {
      gone = true;
      handle.current?.close();
      handle.current = null;
    };
  }, []);
  useEffect(() => {
    if (state !== "rich" || !tables) return;
    for (const { table } of tables) schema.current[table] ??= [];
    handle.current.complete(nested(schema.current));
  }, [state, tables]);
  useEffect(() => {
    if (state !== "rich" || !tables) return undefined;
    const timer = setTimeout(async () => {
      const wanted = tables.map((one) => one.table).filter((name) => text.includes(name) && !schema.current[name]?.length).slice(0, 5);
      for (const name of wanted) {
        const { value } = await get(path`tables/${sqlName(name)}/schema`).catch(() => ({ value: { columns: [] } }));
        schema.current[name] = value.columns.map((one) => one.name);
      }
      if (wanted.length) handle.current?.complete(nested(schema.current));
    }, 300);
    return () => clearTimeout(timer);
  }, [state, tables, text]);
  const keys = (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    onRun(text);
  };
  return html`<div class="editor" ref=${host} hidden=${state !== "rich"}></div>
    ${state === "rich" ? null : html`<textarea aria-label="SQL" spellcheck="false" value=${text} onInput=${(event) => onText(event.currentTarget.value)} onKeyDown=${keys}></textarea>`}`;
}

/** {"shop.orders": ["id"]} as the editor takes it: {shop: {orders: ["id"]}}. */
function nested(tables) {
  const found = Object.create(null); // a table may be called __proto__
  for (const [name, columns] of Object.entries(tables)) {
    const [space, ...rest] = name.split(".");
    if (rest.length !== 1 || name.includes('"')) continue;
    found[space] ??= Object.create(null);
    found[space][rest[0]] = columns;
  }
  return found;
}

function Result({ answer, seconds, asked }) {
  const [view, setView] = useState("table");
  const [sorted, setSorted] = useState(null);
  const rows = useMemo(() => (sorted ? inOrder(answer.rows, sorted) : answer.rows), [answer, sorted]);
  const columns = useMemo(() => columnsOf(answer.columns ?? []).map((one) => ({ ...one, sort: true })), [answer]);
  if (isLink(answer)) return html`<${Large} answer=${answer} />`;
  const sort = (by) => setSorted((old) => (old?.by === by ? { by, down: !old.down } : { by, down: false }));
  const about = Object.entries(answer.snapshots ?? {}).map(([table, snapshot]) => html`<a key=${table} href=${link("tables", tableName(table), { as_of: snapshot })}>${table}</a>`);
  return html`<section aria-label="Result">
    <div class="tools">
      <strong role="status">${counted(answer.rows.length, "row")} in ${seconds.toFixed(2)} s</strong>
      <span class="faint">${about.length ? html`of ${about.map((one, n) => html`${n ? ", " : ""}${one}`)}` : null}</span>
      <span class="grow"></span>
      <span class="actions" role="group" aria-label="Shown as">
        <button type="button" aria-pressed=${view === "table"} onClick=${() => setView("table")}>Table</button>
        <button type="button" aria-pressed=${view === "chart"} onClick=${() => setView("chart")}>Chart</button>
      </span>
      <${Download} asked=${asked} />
    </div>
    ${!answer.rows.length ? html`<${Empty}>No row.<//>` : view === "table" ? html`<${Sheet} label="Result" columns=${columns} length=${rows.length} row=${(n) => rows[n]} sorted=${sorted} onSort=${sort} />` : html`<${Drawn} answer=${answer} />`}
    <details><summary>In a terminal, and over HTTP</summary><${Command} text=${`firn query ${asked.as_of ? `--as-of ${shellWord(asked.as_of)} ` : asked.fresh ? "--fresh " : ""}${shellWord(asked.sql)}`} /><${Command} text=${`curl -s ${new URL("../v1/query", document.baseURI)} -d ${shellWord(JSON.stringify(asked))}`} /></details>
  </section>`;
}

function Large({ answer }) {
  const web = /^https?:/.test(answer.url);
  return html`<div class="notice">
    <p>${counted(answer.rows, "row")}, ${size(answer.bytes)}: too large for a page. It is a ${answer.format} file, kept until ${answer.expires_at}.</p>
    ${web ? html`<a href=${answer.url} rel="noreferrer" download>Download it</a>` : html`<code>${answer.url}</code>`}
  </div>`;
}

function Download({ asked }) {
  const [error, setError] = useState(null);
  const [large, setLarge] = useState(null);
  const fetchAs = async (format) => {
    setError(null);
    setLarge(null);
    try {
      const { blob, link: found } = await download("query", { ...asked, format });
      if (found) return setLarge(found);
      const anchor = document.createElement("a");
      anchor.href = URL.createObjectURL(blob);
      anchor.download = `result.${format}`;
      anchor.click();
      setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
      announce(`Downloaded as ${format}`);
    } catch (failed) {
      setError(failed);
    }
    return undefined;
  };
  const choose = (event) => {
    const format = event.currentTarget.value;
    event.currentTarget.value = "";
    if (format) fetchAs(format);
  };
  return html`<label>Download <select value="" onChange=${choose}><option value="">as …</option>${FORMATS.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>
    ${error ? html`<${Failure} error=${error} />` : null}${large ? html`<${Large} answer=${large} />` : null}`;
}

const NUMBERS = /^(int|uint|float|double|decimal)/;
const BARS = 60;
const POINTS = 5_000;

/** The first column over which numbers can be drawn, and up to five columns of numbers. */
function Drawn({ answer }) {
  const drawn = useMemo(() => drawable(answer), [answer]);
  if (!drawn) return html`<${Empty}>Nothing to draw: a chart needs a column of numbers, and at least two rows.<//>`;
  return html`<${Chart} label="The result" ...${drawn} />${drawn.cut ? html`<p class="faint">The first ${count(drawn.cut)} rows.</p>` : null}`;
}

function drawable({ columns, rows }) {
  const numeric = columns.filter((one) => NUMBERS.test(one.type));
  const over = columns.find((one) => /^(timestamp|date)/.test(one.type)) ?? columns.find((one) => !NUMBERS.test(one.type)) ?? (numeric.length > 1 ? numeric[0] : null);
  const values = numeric.filter((one) => one !== over).slice(0, 5);
  if (!values.length || rows.length < 2) return null;
  const number = (value) => (value === null || value === "" || Number.isNaN(Number(value)) ? null : Number(value));
  const timed = over && /^(timestamp|date)/.test(over.type);
  if (over && !timed && !NUMBERS.test(over.type)) {
    const some = rows.slice(0, BARS);
    return { over: over.name, names: some.map((row) => String(row[over.name] ?? "null")), series: values.map((one) => ({ label: one.name, values: some.map((row) => number(row[one.name])) })), cut: rows.length > BARS ? BARS : 0 };
  }
  const x = (row, n) => (over ? (timed ? Date.parse(row[over.name]) / 1000 : number(row[over.name])) : n);
  const sorted = rows.slice(0, POINTS).map((row, n) => [x(row, n), row]).filter(([at]) => at !== null && !Number.isNaN(at)).sort((a, b) => a[0] - b[0]);
  return { over: over?.name, x: sorted.map(([at]) => at), time: Boolean(timed), series: values.map((one) => ({ label: one.name, values: sorted.map(([, row]) => number(row[one.name])) })), cut: rows.length > POINTS ? POINTS : 0 };
}
