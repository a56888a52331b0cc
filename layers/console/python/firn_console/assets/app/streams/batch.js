// What became of one batch: where its changes are, by table, and its dead letters.
import { html } from "../../vendor/preact.js";
import { Age, Command, Facts, Live, Rows, State } from "../parts/blocks.js";
import { path } from "../shell/api.js";
import { NONE, count, shellWord } from "../shell/format.js";
import { useLive } from "../shell/live.js";
import { link } from "../shell/routes.js";

export function Batch({ stream, id }) {
  const batch = useLive(path`console/streams/${stream}/batches/${id}`, { every: 3_000 });
  return html`<section class="panel" aria-labelledby="batch">
    <h2 id="batch">Batch ${id}</h2>
    <${Live} of=${batch}>${(value) => html`<${Became} of=${value} stream=${stream} />`}<//>
    <${Command} text=${`firn batch ${shellWord(id)}`} />
  </section>`;
}

function Became({ of, stream }) {
  const ignored = Object.entries(of.ignored).map(([reason, n]) => `${reason} ${count(n)}`);
  return html`${of.quarantine ? html`<p class="notice bad">${of.quarantine}</p>` : null}
    ${of.expired ? html`<p class="notice">Its object has expired: the epoch tells what it held.</p>` : null}
    <${Facts} label="The batch" of=${[
      ["state", html`<${State} of=${of.state} />`],
      ["received", html`<${Age} of=${of.received_at} />`],
      ["accepted", count(of.accepted)],
      ["rejected", count(of.rejected)],
      ["ignored", ignored.join(", ") || "0"],
      ["dead letters", count(of.dead_letters)],
      ["epoch", of.epoch ?? NONE],
      ["cut", of.cut ?? NONE],
      ["brought again from", of.replay_of ?? undefined],
    ]} />
    ${of.targets.length ? html`<h3>Where its changes are</h3><${Targets} of=${of.targets} />` : null}
    ${of.dead.length ? html`<h3>Its dead letters</h3><${Dead} of=${of.dead} stream=${stream} />` : null}`;
}

function Targets({ of }) {
  const moment = (one) => link("tables", one.table, { as_of: one.snapshot });
  return html`<${Rows} label="Where its changes are" rows=${of} columns=${[
    ["source table", (one) => one.source],
    ["rows", (one) => count(one.rows), "number"],
    ["table", (one) => (one.table ? html`<a href=${link("tables", one.table)}>${one.table}</a>` : NONE)],
    ["state", (one) => html`<${State} of=${one.state} /> ${one.why}`],
    ["in snapshot", (one) => (one.snapshot ? html`<a href=${moment(one)}>${one.snapshot}</a>` : NONE)],
  ]} />`;
}

function Dead({ of, stream }) {
  return html`<${Rows} label="Its dead letters" rows=${of} columns=${[
    ["reason", (one) => html`<a href=${link("dead-letters", { stream, reason: one.reason })}>${one.reason}</a>`],
    ["source table", (one) => one.table ?? NONE],
    ["letters", (one) => count(one.letters), "number"],
    ["replayed", (one) => count(one.replayed), "number"],
    ["what is wrong", (one) => one.message],
    ["what to do", (one) => one.advice],
  ]} />`;
}
