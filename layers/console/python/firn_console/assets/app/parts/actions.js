// What changes something: each action says what it will do and its command before it is done.
import { html, useEffect, useRef, useState } from "../../vendor/preact.js";
import { path, post, get, withQuery } from "../shell/api.js";
import { useLive } from "../shell/live.js";
import { link } from "../shell/routes.js";
import { Command, Failure, Loading } from "./blocks.js";

/** The actions of a scope as buttons, each with `fields` that are known already (the stream, the table, …). */
export function Actions({ scope, fields = {}, only, onDone }) {
  const all = useLive("console/actions", { every: 0 }).value;
  const [open, setOpen] = useState(null);
  const found = (all?.actions ?? []).filter((one) => one.scope === scope && (!only || only.includes(one.name)));
  if (!found.length) return null;
  return html`<div class="actions">
    ${found.map((one) => html`<button key=${one.name} type="button" onClick=${() => setOpen(one)} disabled=${!one.allowed} title=${one.allowed ? one.does : "Your role may look, and not do this"}>${one.title} …</button>`)}
    ${open ? html`<${ActionDialog} action=${open} fields=${fields} onClose=${() => setOpen(null)} onDone=${onDone} />` : null}
  </div>`;
}

/** The dialog of one action: fields, what it will do to just these, its command, and then what was done. */
export function ActionDialog({ action, fields, onClose, onDone }) {
  const dialog = useRef(null);
  const [given, setGiven] = useState(() => Object.fromEntries(action.fields.map((one) => [one.name, fields[one.name] ?? (one.required ? one.choices[0] : "") ?? ""])));
  const [plan, setPlan] = useState({});
  const [state, setState] = useState({});
  useEffect(() => {
    dialog.current.showModal();
  }, []);
  const missing = action.fields.filter((one) => one.required && !given[one.name]);
  useEffect(() => {
    if (missing.length) {
      setPlan({});
      return undefined;
    }
    const stopped = new AbortController();
    const timer = setTimeout(() => {
      get(withQuery(path`console/actions/${action.name}`, planned(given)), { signal: stopped.signal }).then(
        ({ value }) => setPlan({ value }),
        (error) => error.name !== "AbortError" && setPlan({ error }),
      );
    }, 200);
    return () => {
      clearTimeout(timer);
      stopped.abort();
    };
  }, [action.name, JSON.stringify(given)]);
  const send = async (body, before) => {
    setState({ ...before, busy: true });
    try {
      const done = await post(path`console/actions/${action.name}`, body);
      setState({ done });
      onDone?.(done);
    } catch (error) {
      setState({ ...before, error });
    }
  };
  const act = (event) => {
    event.preventDefault();
    send(Object.fromEntries(Object.entries(given).filter(([, value]) => value !== "")), {});
  };
  return html`<dialog ref=${dialog} class="dialog" aria-labelledby="action-title" onClose=${onClose}>
    <h2 id="action-title">${action.title}</h2>
    ${state.done
      ? html`<${Done} state=${state} onMore=${() => send(state.done.following, { done: state.done })} onClose=${() => dialog.current.close()} />`
      : html`<form onSubmit=${act}>
          ${action.fields.filter((one) => one.required || one.choices.length || one.name in fields).map((one) => html`<${ActionField} key=${one.name} field=${one} fixed=${one.name in fields} value=${given[one.name]} onChange=${(value) => setGiven((old) => ({ ...old, [one.name]: value }))} />`)}
          <div class="plan" aria-live="polite">
            ${plan.error ? html`<${Failure} error=${plan.error} />` : html`<p>${plan.value?.does ?? action.does}</p>`}
            ${plan.value ? html`<p class="faint">The same in a terminal:</p><${Command} text=${plan.value.command} />` : null}
            ${!plan.value && !plan.error && !missing.length ? html`<${Loading} what="Looking at what it would do" />` : null}
          </div>
          ${state.error ? html`<${Failure} error=${state.error} />` : null}
          <div class="dialog-end">
            <button type="button" onClick=${() => dialog.current.close()}>Cancel</button>
            <button type="submit" class="primary" disabled=${!plan.value || !plan.value.allowed || state.busy}>${state.busy ? "Doing it …" : action.title}</button>
          </div>
        </form>`}
  </dialog>`;
}

// What an event is corrected to goes into no address: those are logged on the way.
function planned({ original, base64, ...fields }) {
  return fields;
}

function ActionField({ field, fixed, value, onChange }) {
  if (fixed) return html`<p class="field"><span class="label">${field.name}</span> <code>${value.length > 300 ? `${value.slice(0, 300)} …` : value}</code></p>`;
  const change = (event) => onChange(event.currentTarget.value);
  const id = `action-${field.name}`;
  return html`<div class="field">
    <label for=${id} class="label">${field.name}${field.required ? "" : " (may be left out)"}</label>
    ${field.choices.length
      ? html`<select id=${id} value=${value} onChange=${change} aria-describedby=${`${id}-what`}>${field.required ? null : html`<option value="">–</option>`}${field.choices.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select>`
      : html`<input id=${id} value=${value} onInput=${change} required=${field.required} autocomplete="off" spellcheck="false" aria-describedby=${`${id}-what`} />`}
    <p id=${`${id}-what`} class="faint">${field.what}</p>
  </div>`;
}

function Done({ state, onMore, onClose }) {
  const { done, busy, error } = state;
  return html`<div>
    <p class="notice good" role="status">${busy ? "Doing the rest …" : done.text}</p>
    ${done.lines.length ? html`<ul class="lines">${done.lines.map((line, n) => html`<li key=${n}>${line}</li>`)}</ul>` : null}
    ${done.run ? html`<p><a href=${link("jobs", done.run)} onClick=${onClose}>Follow the job ${done.run}</a></p>` : null}
    ${error ? html`<${Failure} error=${error} />` : null}
    <div class="dialog-end">
      <button type="button" class=${done.following ? undefined : "primary"} onClick=${onClose} autofocus=${!done.following}>Close</button>
      ${done.following ? html`<button type="button" class="primary" onClick=${onMore} disabled=${busy} autofocus>Go on with the rest</button>` : null}
    </div>
  </div>`;
}
