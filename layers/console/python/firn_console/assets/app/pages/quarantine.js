// What is held because it can't be committed, why, and how it goes on.
import { html, useState } from "../../vendor/preact.js";
import { ActionDialog } from "../parts/actions.js";
import { Age, Command, Empty, Facts, Live, Rows, State, Title } from "../parts/blocks.js";
import { shellWord } from "../shell/format.js";
import { useLive } from "../shell/live.js";
import { link } from "../shell/routes.js";

export function Page() {
  const page = useLive("console/quarantine", { every: 5_000 });
  const actions = useLive("console/actions", { every: 0 }).value?.actions ?? [];
  const resume = actions.find((one) => one.name === "resume");
  return html`<${Title}>Quarantine<//>
    <p class="faint">What can't be committed waits here, and nothing else waits with it.</p>
    <${Live} of=${page}>
      ${({ held, past }) => html`
        ${held.length ? held.map((one) => html`<${Hold} key=${`${one.stream} ${one.name}`} hold=${one} resume=${resume} onDone=${page.refresh} />`) : html`<${Empty}>Nothing is quarantined.<//>`}
        ${past.length
          ? html`<section class="panel" aria-labelledby="past"><h2 id="past">Was quarantined</h2>
              <${Rows} label="Was quarantined" rows=${past} keyOf=${(one) => `${one.stream} ${one.name} ${one.made_at}`} columns=${[
                ["stream", (one) => one.stream], ["what", (one) => one.name], ["reason", (one) => one.reason],
                ["from", (one) => html`<${Age} of=${one.made_at} />`], ["until", (one) => html`<${Age} of=${one.lifted_at} />`], ["how", (one) => one.lifted_how ?? "–"],
              ]} /></section>`
          : null}`}
    <//>`;
}

function Hold({ hold, resume, onDone }) {
  const [way, setWay] = useState(null);
  const what = `${hold.stream}: ${hold.name}`;
  return html`<section class="panel" aria-label=${what}>
    <h2>${what} <${State} of="held" /></h2>
    <p>${hold.message}</p>
    <p class="faint">${hold.advice}</p>
    <${Facts} label=${what} of=${[
      ["reason", hold.reason], ["stream", html`<a href=${link("streams", hold.stream)}>${hold.stream}</a>`],
      ["table", hold.kind === "table" ? html`<a href=${link("tables", hold.name)}>${hold.name}</a>` : undefined],
      ["since", html`<${Age} of=${hold.made_at} />`], ["epoch", hold.epoch], ["up to epoch", hold.upto],
    ]} />
    ${resume
      ? html`<div class="actions">
          ${hold.ways.map((how) => html`<button key=${how} type="button" disabled=${!resume.allowed} title=${resume.allowed ? undefined : "Your role may look, and not do this"} onClick=${() => setWay(how)}>Resume: ${how} …</button>`)}
        </div>`
      : html`<${Command} text=${`firn resume ${shellWord(hold.stream)}`} />`}
    ${way ? html`<${ActionDialog} action=${resume} fields=${{ stream: hold.stream, name: hold.name, how: way }} onClose=${() => setWay(null)} onDone=${onDone} />` : null}
  </section>`;
}
