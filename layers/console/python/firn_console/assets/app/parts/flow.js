// The way of a stream's changes as a picture with its live counts: across, or down where the page is narrow.
import { html, useEffect, useState } from "../../vendor/preact.js";
import { count, counted, duration, short, size } from "../shell/format.js";

const BOX = { w: 150, h: 84 };
// Places of the five steps and of the dead letters, and the ways to these, in units of the picture.
const ACROSS = { view: "0 0 970 250", step: (n) => [10 + n * 200, 20], dead: [410, 146], refused: "M85 104V188H406", rejected: "M685 104V188H564" };
const DOWN = { view: "0 0 340 590", step: (n) => [10, 10 + n * 120], dead: [185, 250], refused: "M160 52H260V246", rejected: "M160 412H260V338" };
const NARROW = "(max-width: 40rem)";

/** `way`: StreamPage.way; `backlog`: its row's. */
export function Flow({ way, backlog }) {
  const at = useNarrow() ? DOWN : ACROSS;
  const over = duration(way.window_seconds);
  const steps = [
    { name: "posted", n: way.accepted_events, more: `${counted(way.accepted_batches, "batch", "batches")} in ${over}` },
    { name: "staged", n: way.staged_events, more: size(backlog.staged_bytes), kind: way.staged_events ? "on" : "" },
    { name: "sealed", n: way.sealed_events, more: counted(way.sealed_epochs, "epoch"), kind: way.sealed_events ? "on" : "" },
    { name: "committing", n: way.committing_events, more: counted(way.committing_epochs, "epoch"), kind: way.committing_events ? "on" : "" },
    { name: "committed", n: way.committed_events, more: `merged ${short(way.merged)}, older ${short(way.superseded)}`, kind: "end" },
  ];
  const dead = { name: "dead letters", n: way.dead, more: `ignored ${short(way.ignored)}`, kind: way.dead ? "ill" : "" };
  const label = `Of the last ${over}: ${steps.map((one) => `${one.name} ${count(one.n)}`).join(", ")}, ignored ${count(way.ignored)}, dead letters ${count(way.dead)}.`;
  const moving = [way.staged_events, way.sealed_events, way.committing_events, way.committing_events];
  return html`<svg class="flow" viewBox=${at.view} role="img" aria-label=${label}>
    <defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" /></marker></defs>
    ${moving.map((n, i) => html`<path key=${i} class=${n ? "moving" : undefined} marker-end="url(#tip)" d=${between(at.step(i), at.step(i + 1))} />`)}
    <path marker-end="url(#tip)" d=${at.refused} />
    <path marker-end="url(#tip)" d=${at.rejected} />
    ${steps.map((one, i) => html`<${Box} key=${one.name} at=${at.step(i)} of=${one} />`)}
    <${Box} at=${at.dead} of=${dead} />
  </svg>`;
}

function between([x, y], [nextX, nextY]) {
  return y === nextY ? `M${x + BOX.w + 3} ${y + BOX.h / 2}H${nextX - 4}` : `M${x + BOX.w / 2} ${y + BOX.h + 3}V${nextY - 4}`;
}

function Box({ at: [x, y], of }) {
  const middle = x + BOX.w / 2;
  return html`<g class=${of.kind}>
    <rect x=${x} y=${y} width=${BOX.w} height=${BOX.h} rx="8" />
    <text class="name" x=${middle} y=${y + 21}>${of.name}</text>
    <text class="n" x=${middle} y=${y + 48}>${of.n > 9_999_999 ? short(of.n) : count(of.n)}</text>
    <text class="more" x=${middle} y=${y + 69}>${of.more}</text>
  </g>`;
}

function useNarrow() {
  const [narrow, setNarrow] = useState(() => matchMedia(NARROW).matches);
  useEffect(() => {
    const query = matchMedia(NARROW);
    const changed = () => setNarrow(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  return narrow;
}
