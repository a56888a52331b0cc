// Snapshots over time: a picture and a slider, by points of many snapshots or one, and the rows as they were.
import { html, useMemo, useState } from "../../vendor/preact.js";
import { Empty, Facts, Live } from "../parts/blocks.js";
import { path, withQuery } from "../shell/api.js";
import { clock, count, counted, NONE, sqlName } from "../shell/format.js";
import { useLive, useSettled } from "../shell/live.js";
import { link, setFields } from "../shell/routes.js";
import { RowView } from "./rows.js";

const POINTS = 300;

export function TimeView({ table, fields }) {
  const timeline = useLive(withQuery(path`tables/${sqlName(table)}/timeline`, { from: fields.from, to: fields.to, points: POINTS }), { every: 30_000 });
  return html`<${Live} of=${timeline} what="Reading snapshots">${(value) => html`<${Travel} table=${table} timeline=${value} fields=${fields} />`}<//>`;
}

function Travel({ table, timeline, fields }) {
  const { points, refs } = timeline;
  const named = points.findIndex((one) => one.last === fields.at);
  const [moved, setMoved] = useState(null);
  const place = Math.min(points.length - 1, moved ?? (named >= 0 ? named : points.length - 1));
  const settled = useSettled(place, 250);
  if (!points.length) return html`<${Empty} command="firn flush">The table has no snapshot yet.<//>`;
  const point = points[place];
  const zoomed = fields.from || fields.to;
  const zoom = () => {
    setMoved(null);
    setFields({ from: point.first, to: point.last, at: null }, { replace: false });
  };
  const out = () => {
    setMoved(null);
    setFields({ from: null, to: null, at: null });
  };
  return html`<section class="panel" aria-labelledby="time">
      <div class="tools">
        <h2 id="time">${counted(timeline.snapshots, "snapshot")}</h2>
        <span class="legend"><span><i class="added"></i>rows added</span><span><i class="removed"></i>rows deleted</span></span>
        <span class="grow"></span>
        ${zoomed ? html`<button type="button" onClick=${out}>Show all of time</button>` : null}
      </div>
      <${Picture} points=${points} chosen=${[place]} />
      <label class="unseen" for="moment">Moment</label>
      <input id="moment" type="range" min="0" max=${points.length - 1} value=${place} onInput=${(event) => setMoved(Number(event.currentTarget.value))} aria-valuetext=${spoken(point)} />
      <${Facts} label="The chosen moment" of=${[
        ["moment (UTC)", point.snapshots > 1 ? `${clock(point.from)} to ${clock(point.to)}` : clock(point.to)],
        ["snapshot", html`<code>${point.last}</code>${point.last === timeline.current ? " (current)" : ""}`],
        ["operation", point.operation ?? counted(point.snapshots, "snapshot")], ["added", count(point.added)], ["deleted", count(point.deleted)], ["rows then", count(point.rows)],
        ["named", refs.filter((one) => one.snapshot === point.last).map((one) => one.name).join(", ") || NONE],
      ]} />
      <div class="actions">
        ${point.snapshots > 1 ? html`<button type="button" onClick=${zoom}>Zoom into these ${count(point.snapshots)} snapshots</button>` : null}
        <a href=${link("tables", table, { view: "changes", from: point.last, to: timeline.current })}>What changed since</a>
        <a href=${link("query", { sql: `SELECT count(*) FROM ${table}`, as_of: point.last })}>Query this moment</a>
      </div>
    </section>
    <section aria-labelledby="then">
      <h2 id="then">Rows at this moment</h2>
      <${RowView} table=${table} fields=${{}} moment=${points[Math.min(settled, points.length - 1)].last} />
    </section>`;
}

const spoken = (point) => `${clock(point.to)} UTC, ${point.operation ?? counted(point.snapshots, "snapshot")}, ${count(point.rows)} rows`;

/** What was added (up) and deleted (down), a bar a point; `chosen` points have a line. Two paths, however many points. */
export function Picture({ points, chosen }) {
  const { added, removed, middle } = useMemo(() => bars(points), [points]);
  return html`<svg class="timeline" viewBox="0 0 1000 96" preserveAspectRatio="none" aria-hidden="true">
    <path class="added" d=${added} /><path class="removed" d=${removed} />
    <line class="zero" x1="0" x2="1000" y1=${middle} y2=${middle} vector-effect="non-scaling-stroke" />
    ${chosen.map((place, n) => html`<line key=${n} class="here" x1=${centre(place, points.length)} x2=${centre(place, points.length)} y1="0" y2="96" vector-effect="non-scaling-stroke" />`)}
  </svg>`;
}

const centre = (place, all) => ((place + 0.5) / all) * 1000;

function bars(points) {
  // By logarithm: one backfill must not flatten everything after it.
  const up = points.map((one) => Math.log1p(one.added));
  const down = points.map((one) => Math.log1p(one.deleted));
  const [top, bottom] = [Math.max(...up), Math.max(...down)];
  const unit = 90 / Math.max(1, top + bottom);
  const middle = 3 + top * unit;
  const width = Math.min(14, 800 / points.length);
  const bar = (n, from, to) => `M${(centre(n, points.length) - width / 2).toFixed(2)} ${from.toFixed(2)}h${width.toFixed(2)}V${to.toFixed(2)}h-${width.toFixed(2)}z`;
  return {
    middle,
    added: up.map((value, n) => (value ? bar(n, middle, middle - value * unit) : "")).join(""),
    removed: down.map((value, n) => (value ? bar(n, middle, middle + value * unit) : "")).join(""),
  };
}
