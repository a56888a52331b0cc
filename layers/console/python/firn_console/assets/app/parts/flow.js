// The way of a stream's changes as a picture with its live counts.
import { html } from "../../vendor/preact.js";
import { count, counted, duration, short, size } from "../shell/format.js";

const BOX = { w: 150, h: 84, y: 20 };

/** `way`: StreamPage.way; `backlog`: its row's. */
export function Flow({ way, backlog }) {
  const over = duration(way.window_seconds);
  const boxes = [
    { name: "posted", n: way.accepted_events, more: `${counted(way.accepted_batches, "batch", "batches")} in ${over}` },
    { name: "staged", n: way.staged_events, more: size(backlog.staged_bytes), kind: way.staged_events ? "on" : "" },
    { name: "sealed", n: way.sealed_events, more: counted(way.sealed_epochs, "epoch"), kind: way.sealed_events ? "on" : "" },
    { name: "committing", n: way.committing_events, more: counted(way.committing_epochs, "epoch"), kind: way.committing_events ? "on" : "" },
    { name: "committed", n: way.committed_events, more: `merged ${short(way.merged)}, older ${short(way.superseded)}`, kind: "end" },
  ];
  const label = `Of the last ${over}: ${boxes.map((one) => `${one.name} ${count(one.n)}`).join(", ")}, ignored ${count(way.ignored)}, dead letters ${count(way.dead)}.`;
  const at = (n) => 10 + n * 200;
  const moving = [way.staged_events, way.sealed_events, way.committing_events, way.committing_events];
  return html`<svg class="flow" viewBox="0 0 970 240" role="img" aria-label=${label}>
    <defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" /></marker></defs>
    ${moving.map((n, i) => html`<path key=${i} class=${n ? "moving" : undefined} marker-end="url(#tip)" d=${`M${at(i) + BOX.w + 3} ${BOX.y + BOX.h / 2} H${at(i + 1) - 4}`} />`)}
    <path marker-end="url(#tip)" d=${`M${at(0) + BOX.w / 2} ${BOX.y + BOX.h} V188 H${at(2) - 4}`} />
    <path marker-end="url(#tip)" d=${`M${at(3) + BOX.w / 2} ${BOX.y + BOX.h} V188 H${at(2) + BOX.w + 4}`} />
    ${boxes.map((one, i) => html`<${Box} key=${one.name} x=${at(i)} y=${BOX.y} of=${one} />`)}
    <${Box} x=${at(2)} y=${146} of=${{ name: "dead letters", n: way.dead, more: `ignored ${short(way.ignored)}`, kind: way.dead ? "ill" : "" }} />
  </svg>`;
}

function Box({ x, y, of }) {
  const middle = x + BOX.w / 2;
  return html`<g class=${of.kind}>
    <rect x=${x} y=${y} width=${BOX.w} height=${BOX.h} rx="8" />
    <text class="name" x=${middle} y=${y + 21}>${of.name}</text>
    <text class="n" x=${middle} y=${y + 48}>${of.n > 9_999_999 ? short(of.n) : count(of.n)}</text>
    <text class="more" x=${middle} y=${y + 69}>${of.more}</text>
  </g>`;
}
