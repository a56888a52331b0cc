// Charts of columns of numbers, by uPlot, which is loaded when the first one is shown.
import { html, useEffect, useRef, useState } from "../../vendor/preact.js";

let loading = null;

/** Its styles: what is drawn before they are there moves once they come. Without them it is drawn all the same. */
function styles() {
  const sheet = document.createElement("link");
  sheet.rel = "stylesheet";
  sheet.href = new URL("../../vendor/uplot.css", import.meta.url);
  return new Promise((there) => {
    sheet.onload = sheet.onerror = there;
    document.head.append(sheet);
  });
}

function plotter() {
  loading ??= Promise.all([import("../../vendor/uplot.js"), styles()]).then(([module]) => module.default);
  return loading;
}

/** A colour of the theme that is shown, as a canvas takes it. */
function colour(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** A time of an axis that spans so many seconds, in UTC. */
function moment(seconds, span) {
  const text = new Date(seconds * 1000).toISOString();
  if (span === 0) return text.slice(0, 19).replace("T", " ");
  return span > 172_800 ? text.slice(0, 10) : text.slice(11, 16);
}

const LEGEND = 30; // pixels below the lines: their room is kept while the plotter is loaded, so that nothing moves down
const faded = (rgb) => rgb.replace("rgb(", "rgba(").replace(")", ", 0.35)");
const LINES = ["--chart-1", "--chart-2", "--chart-3", "--chart-4", "--chart-5"];

/**
 * over   what the x are of
 * x      numbers (`time`: seconds since 1970), ascending; or `names` instead: texts, a bar each
 * series [{label, values}]: a line or bar each
 * label  what is shown, for screen readers
 */
export function Chart({ label, over = "", x, time = false, names, series, height = 260 }) {
  const host = useRef(null);
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    const box = host.current;
    let plot = null;
    let gone = false;
    const draw = (Plot) => {
      if (gone) return;
      plot?.destroy();
      plot = new Plot(options(Plot, { over, x, time, names, series, width: box.clientWidth || 600, height }), [names ? names.map((_, n) => n) : x, ...series.map((one) => one.values)], box);
      plot.root.setAttribute("aria-hidden", "true");
    };
    const sized = new ResizeObserver(() => plot?.setSize({ width: box.clientWidth, height }));
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const again = () => plotter().then(draw);
    const themed = new MutationObserver(again);
    plotter().then(draw, () => setFailed(true));
    sized.observe(box);
    dark.addEventListener("change", again);
    themed.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    return () => {
      gone = true;
      sized.disconnect();
      themed.disconnect();
      dark.removeEventListener("change", again);
      plot?.destroy();
    };
  }, [over, x, names, series, height, time]);
  return html`<figure class="chart"><div ref=${host} style=${{ minHeight: `${height + LEGEND}px` }} role="img" aria-label=${`${label}: ${summary(series)}`}></div>${failed ? html`<figcaption>The chart could not be loaded: reload the console.</figcaption>` : null}</figure>`;
}

function summary(series) {
  const about = ({ label, values }) => {
    const there = values.filter((value) => value !== null);
    if (!there.length) return `${label} has no values`;
    const [least, most] = there.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, -Infinity]);
    return `${label} from ${least} to ${most}`;
  };
  return series.map(about).join("; ");
}

function options(Plot, { over, time, names, series, width, height }) {
  const line = { stroke: colour("--text-muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 }, font: "12px system-ui, sans-serif" };
  const times = { ...line, values: (_, at) => at.map((seconds) => moment(seconds, at.at(-1) - at[0])) };
  const named = { ...line, values: (_, at) => at.map((n) => (Number.isInteger(n) ? String(names?.[n] ?? "").slice(0, 16) : "")), splits: undefined };
  const paths = names ? Plot.paths.bars({ size: [0.7, 60] }) : undefined;
  return {
    width,
    height,
    scales: { x: { time, ...(names ? { range: [-0.6, names.length - 0.4] } : {}) } },
    axes: [names ? named : time ? times : line, { ...line, size: 64 }],
    series: [
      { label: time ? "UTC" : over || "row", value: (_, at) => (at === null ? "–" : names ? String(names[Math.round(at)] ?? "") : time ? moment(at, 0) : String(at)) },
      ...series.map(({ label }, n) => ({ label, stroke: colour(LINES[n % LINES.length]), width: 1.75, paths, fill: names ? faded(colour(LINES[n % LINES.length])) : undefined, points: { show: false } })),
    ],
    cursor: { points: { size: 6 } },
  };
}
