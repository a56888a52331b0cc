// The frame of all pages: navigation, the page of the current address, what the connection does, the theme.
import { Component, html, useEffect, useRef, useState } from "../../vendor/preact.js";
import { Failure, Loading, Title } from "../parts/blocks.js";
import { announce, announceIn } from "./announcer.js";
import { clock, count } from "./format.js";
import { useLive, watchReach } from "./live.js";
import { link, useRoute } from "./routes.js";
import { THEMES, applyTheme, chosenTheme } from "./theme.js";

// first segment of the address -> its module, which is loaded when its page is first shown
const PAGES = {
  __proto__: null, // so that no word but these is one
  "": () => import("../pages/overview.js"),
  streams: () => import("../pages/stream.js"),
  tables: () => import("../pages/table.js"),
  "dead-letters": () => import("../pages/letters.js"),
  quarantine: () => import("../pages/quarantine.js"),
  alerts: () => import("../pages/alerts.js"),
  jobs: () => import("../pages/jobs.js"),
  query: () => import("../pages/query.js"),
};
const NAVIGATION = [
  ["", "Overview"],
  ["tables", "Tables"],
  ["dead-letters", "Dead letters"],
  ["quarantine", "Quarantine"],
  ["alerts", "Alerts"],
  ["jobs", "Jobs"],
  ["query", "Query"],
];

export function Frame() {
  const route = useRoute();
  const [open, setOpen] = useState(false);
  const session = useLive("console/session", { every: 10_000 });
  const said = useRef(null);
  useEffect(() => announceIn(said.current), []);
  useEffect(() => setOpen(false), [route.text]);
  return html`<a class="skip" href="#main" onClick=${skip}>Skip to the page</a>
    <header class="bar">
      <a class="brand" href="#/"><${Crystal} /><span>Firn</span></a>
      ${session.value && html`<span class="target" title="the stack that is shown">${session.value.target}</span>`}
      <span class="grow"></span>
      <${Reach} />
      <${ThemeSwitch} />
      <button class="menu" type="button" aria-expanded=${open} aria-controls="navigation" onClick=${() => setOpen(!open)}>Menu</button>
    </header>
    <div class="body">
      <${Navigation} open=${open} at=${route.parts[0] ?? ""} />
      <main id="main" tabindex="-1">
        ${session.value?.paused_since &&
        html`<p class="notice warn">Paused since ${clock(session.value.paused_since)} UTC: no job starts, changes are still accepted. <code>firn resume</code> goes on.</p>`}
        <${Guard} key=${route.parts.join("/")}><${Page} route=${route} /><//>
      </main>
    </div>
    <div class="unseen" role="status" aria-live="polite" ref=${said}></div>`;
}

function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

function Navigation({ open, at }) {
  const overview = useLive("console/overview", { every: 5_000 }).value;
  const dead = (overview?.streams ?? []).reduce((sum, one) => sum + one.dead_waiting, 0);
  const held = (overview?.streams ?? []).reduce((sum, one) => sum + one.held.length, 0);
  const badge = { "dead-letters": dead, quarantine: held };
  const current = at === "streams" ? "" : at;
  return html`<nav id="navigation" class=${open ? "side open" : "side"} aria-label="Pages">
    <ul>
      ${NAVIGATION.map(
        ([where, name]) => html`<li key=${where}>
          <a href=${link(...(where ? [where] : []))} aria-current=${current === where ? "page" : undefined}>
            ${name}${badge[where] ? html` <span class="badge bad">${count(badge[where])}<span class="unseen"> waiting</span></span>` : null}
          </a>
        </li>`,
      )}
      <li><a href="../docs/">Documentation</a></li>
    </ul>
    ${overview?.streams.length
      ? html`<h2 class="side-title" id="side-streams">Streams</h2>
          <ul aria-labelledby="side-streams">
            ${overview.streams.slice(0, 50).map(
              (one) => html`<li key=${one.stream}><a href=${link("streams", one.stream)}><span class=${`dot ${one.state}`}></span><span class="cut">${one.stream}</span><span class="unseen">, ${one.state}</span></a></li>`,
            )}
          </ul>`
      : null}
  </nav>`;
}

/** The page of an address. It gets the focus when it comes, so that keyboards and screen readers start at its title. */
function Page({ route }) {
  const first = route.parts[0] ?? "";
  const [shown, setShown] = useState(null);
  const [error, setError] = useState(null);
  const place = route.parts.join("/");
  useEffect(() => {
    let wanted = true;
    const load = PAGES[first];
    if (!load) {
      setShown({ first, page: null });
      return undefined;
    }
    load().then(
      (module) => wanted && setShown({ first, page: module.Page }),
      () => wanted && setError(new Error("This page could not be loaded: reload the console, it may have been updated")),
    );
    return () => (wanted = false);
  }, [first]);
  const ready = shown?.first === first;
  useEffect(() => {
    if (!ready) return;
    if (!firstPage) {
      document.querySelector("main h1")?.focus();
      scrollTo(0, 0);
    }
    firstPage = false;
  }, [ready, place]);
  if (error) return html`<${Failure} error=${error} />`;
  if (!ready) return html`<${Loading} />`;
  if (shown.page === null)
    return html`<${Title}>No such page<//><p>There is nothing at <code>${route.text}</code>. <a href="#/">Go to the overview</a>.</p>`;
  return html`<${shown.page} parts=${route.parts.slice(1)} fields=${route.fields} />`;
}

let firstPage = true; // the browser's own start: who just came keeps the focus where it is

/** Whether the stack answers. Only a change of that is announced, not each answer. */
function Reach() {
  const [reach, setReach] = useState({ state: "waiting" });
  const last = useRef("waiting");
  useEffect(
    () =>
      watchReach((now) => {
        if (now.state !== last.current && (now.state === "lost" || last.current === "lost"))
          announce(now.state === "lost" ? now.error.message : "The stack answers again");
        last.current = now.state;
        setReach((old) => (old.state === now.state ? old : now));
      }),
    [],
  );
  const words = { waiting: "connecting", live: "live", lost: "no answer" };
  return html`<span class=${`reach ${reach.state}`} title=${reach.error?.message ?? "The page follows the stack by itself"}><span class="dot"></span>${words[reach.state]}</span>`;
}

function ThemeSwitch() {
  const [theme, setTheme] = useState(chosenTheme);
  const choose = (event) => {
    applyTheme(event.currentTarget.value);
    setTheme(event.currentTarget.value);
  };
  return html`<label class="theme"><span class="unseen">Theme</span>
    <select value=${theme} onChange=${choose}>${THEMES.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select>
  </label>`;
}

/** What a page throws is shown in its place; the frame stays. */
class Guard extends Component {
  static getDerivedStateFromError(error) {
    return { error };
  }

  render({ children }, { error }) {
    if (!error) return children;
    const text = `This page failed (${error.name}: ${error.message}). Reload it; if it fails again, that is a fault of Firn's.`;
    return html`<${Title}>This page failed<//><${Failure} error=${new Error(text)} />`;
  }
}

function Crystal() {
  return html`<svg class="crystal" viewBox="0 0 24 24" aria-hidden="true"><path d="M12 2v20M3.500 7l17 10M3.500 17l17-10M9 3.800 12 6.500l3-2.700M9 20.200l3-2.700 3 2.700" /></svg>`;
}
