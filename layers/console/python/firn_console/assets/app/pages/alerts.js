// What somebody is told about: which alerts last, which ended, whether the messages arrived, and a test of that.
import { html } from "../../vendor/preact.js";
import { Actions } from "../parts/actions.js";
import { Age, Empty, Live, Rows, State, Title } from "../parts/blocks.js";
import { useLive } from "../shell/live.js";
import { link } from "../shell/routes.js";

export function Page() {
  const page = useLive("console/alerts", { every: 5_000 });
  return html`<${Title}>Alerts<//>
    <p class="faint">Each is told once when it begins and once when it ends, by a webhook or an SNS topic.</p>
    <${Live} of=${page}>${(value) => html`<${Alerts} value=${value} onDone=${page.refresh} />`}<//>`;
}

function Alerts({ value, onDone }) {
  const { targets, rules, alerts, ended } = value;
  if (!rules.length && !targets.length && !alerts.length)
    return html`<${Empty}>firn.yaml has no alerts. <a href="../docs/alerts/">How to write them</a>.<//>`;
  const lasting = alerts.filter((one) => !one.ended_at);
  const past = alerts.filter((one) => one.ended_at);
  return html`
    <section class="panel" aria-labelledby="lasting"><h2 id="lasting">Lasting</h2>
      ${lasting.length ? lasting.map((one) => html`<${Alert} key=${`${one.rule} ${one.stream} ${one.subject}`} of=${one} />`) : html`<p>No alert lasts.</p>`}
    </section>
    <section class="panel" aria-labelledby="rules"><h2 id="rules">What is watched</h2>
      <${Rows} label="What is watched" rows=${rules} keyOf=${(one) => one.name} columns=${[
        ["alert", (one) => one.name], ["watches", (one) => one.watches], ["tells", (one) => one.to.join(", ")],
        ["lasting", (one) => (one.lasting ? html`<${State} of="failing" /> ${one.lasting}` : html`<${State} of="ok" />`)],
      ]} /></section>
    <section class="panel" aria-labelledby="targets"><h2 id="targets">Who is told</h2>
      <${Rows} label="Who is told" rows=${targets} keyOf=${(one) => one.name} columns=${[
        ["target", (one) => one.name], ["kind", (one) => one.kind], ["where", (one) => html`<code>${one.where}</code>`],
        ["test", (one) => html`<${Actions} scope="alerts" fields=${{ name: one.name }} onDone=${onDone} />`],
      ]} /></section>
    ${past.length
      ? html`<section class="panel" aria-labelledby="past"><h2 id="past">Ended</h2>
          <p class="faint">The newest ${past.length} of ${ended}.</p>
          <${Rows} label="Ended" rows=${past} keyOf=${(one) => `${one.rule} ${one.stream} ${one.subject} ${one.began_at}`} columns=${[
            ["alert", (one) => one.rule], ["began", (one) => html`<${Age} of=${one.began_at} />`], ["ended", (one) => html`<${Age} of=${one.ended_at} />`],
            ["what", (one) => one.text], ["told", (one) => html`<${Told} of=${one} />`],
          ]} /></section>`
      : null}`;
}

function Alert({ of }) {
  return html`<div class="notice bad">
    <p>${of.text}</p>
    <p class="faint">began <${Age} of=${of.began_at} />, stream <a href=${link("streams", of.stream)}>${of.stream}</a></p>
    <${Told} of=${of} />
  </div>`;
}

/** What became of each message. */
function Told({ of }) {
  return html`<ul class="lines">${of.told.map(
    (one) => html`<li key=${`${one.target} ${one.moment}`}>${one.target}, ${one.moment}: <${State} of=${one.state} />${one.why ? ` ${one.why}` : ""}</li>`,
  )}</ul>`;
}
