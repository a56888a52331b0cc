// A table of any size: only the rows and columns that are in sight are drawn.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../../vendor/preact.js";
import { cellText, count } from "../shell/format.js";

const ROW = 30; // px, as .sheet td in firn.css
const BEYOND = 8; // rows drawn above and below what is seen
const WIDE = 30; // columns up to which all are drawn

/**
 * label     what it holds, for screen readers
 * columns   [{name, title?, hint?, width?, number?, key?, cell?(row, n), sort?}, …]; `width` in px
 * length    rows in all
 * row(n)    row n, or undefined while it is not here
 * sorted    {by, down}; onSort(name) is called by titles of columns with `sort`
 * chosen    number of the chosen row; onChoose(n) makes rows choosable by click, Enter and arrows
 * onSeen    is called with the first and last row in sight
 */
export function Sheet({ label, columns, length, row, sorted, onSort, chosen, onChoose, onSeen, height }) {
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, left: 0, height: 480, width: 1200 });
  useLayoutEffect(() => {
    const element = box.current;
    const look = () => {
      const { scrollTop: top, scrollLeft: left, clientHeight, clientWidth } = element;
      setView((old) =>
        old.top === top && old.left === left && old.height === clientHeight && old.width === clientWidth
          ? old
          : { top, left, height: clientHeight, width: clientWidth },
      );
    };
    const sized = new ResizeObserver(look);
    sized.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    look();
    return () => {
      sized.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);
  const first = Math.max(0, Math.floor(view.top / ROW) - BEYOND);
  const last = Math.min(length, Math.ceil((view.top + view.height) / ROW) + BEYOND);
  useEffect(() => onSeen?.(first, last), [first, last, onSeen]);
  useEffect(() => {
    const element = box.current;
    if (chosen === undefined || chosen === null || chosen < 0) return;
    if (chosen * ROW < element.scrollTop) element.scrollTop = chosen * ROW;
    else if ((chosen + 2) * ROW > element.scrollTop + element.clientHeight) element.scrollTop = (chosen + 2) * ROW - element.clientHeight;
  }, [chosen]);
  const [from, to, before, after] = columnsSeen(columns, view);
  const seen = columns.slice(from, to);
  const span = seen.length + Boolean(before) + Boolean(after);
  const total = columns.reduce((sum, one) => sum + widthOf(one), 0);
  const keys = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15 }[event.key];
    if (!onChoose || !step || event.target !== box.current) return;
    event.preventDefault();
    onChoose(Math.max(0, Math.min(length - 1, (chosen ?? -1) + step)));
  };
  const numbers = [];
  for (let n = first; n < last; n += 1) numbers.push(n);
  const pad = (width) => (width ? html`<td class="pad" aria-hidden="true"></td>` : null);
  return html`<div class="sheet" ref=${box} tabindex="0" role="region" aria-label=${`${label}, ${count(length)} rows`} onKeyDown=${keys} style=${{ height: height ?? `min(${(length + 1) * ROW + 20}px, 65vh)` }}>
    <table aria-rowcount=${length + 1} aria-colcount=${columns.length} style=${{ minWidth: `${total}px` }}>
      <colgroup>
        ${before ? html`<col style=${{ width: `${before}px` }} />` : null}
        ${seen.map((one) => html`<col key=${one.name} style=${{ width: `${widthOf(one)}px` }} />`)}
        ${after ? html`<col style=${{ width: `${after}px` }} />` : null}
      </colgroup>
      <thead>
        <tr aria-rowindex="1">
          ${pad(before)}
          ${seen.map((one, n) => html`<${Heading} key=${one.name} column=${one} index=${from + n + 1} sorted=${sorted} onSort=${onSort} />`)}
          ${pad(after)}
        </tr>
      </thead>
      <tbody>
        ${first ? html`<tr class="gap" aria-hidden="true" key="above"><td colspan=${span} style=${{ height: `${first * ROW}px` }}></td></tr>` : null}
        ${numbers.map((n) => {
          const one = row(n);
          return html`<tr key=${n} aria-rowindex=${n + 2} class=${n === chosen ? "chosen" : undefined} onClick=${onChoose ? () => onChoose(n) : undefined}>
            ${pad(before)}
            ${seen.map((column, c) => html`<td key=${column.name} aria-colindex=${from + c + 1} class=${column.number ? "number" : undefined}>${one === undefined ? html`<span class="faint">…</span>` : column.cell ? column.cell(one, n) : shown(one[column.name])}</td>`)}
            ${pad(after)}
          </tr>`;
        })}
        ${last < length ? html`<tr class="gap" aria-hidden="true" key="below"><td colspan=${span} style=${{ height: `${(length - last) * ROW}px` }}></td></tr>` : null}
      </tbody>
    </table>
  </div>`;
}

function Heading({ column, index, sorted, onSort }) {
  const title = column.title ?? column.name;
  const kind = column.number ? "number" : undefined;
  const mark = column.key ? html`<span class="key"> key</span>` : null;
  if (!column.sort || !onSort) return html`<th scope="col" aria-colindex=${index} class=${kind} title=${column.hint ?? title}>${title}${mark}</th>`;
  const way = sorted?.by === column.name ? (sorted.down ? "descending" : "ascending") : undefined;
  return html`<th scope="col" aria-colindex=${index} class=${kind} aria-sort=${way}>
    <button type="button" class="sort" onClick=${() => onSort(column.name)}>${title}${mark}<span aria-hidden="true">${way ? (sorted.down ? " ↓" : " ↑") : ""}</span></button>
  </th>`;
}

/** A value in a cell: null is told from the text "null". */
export function shown(value) {
  const text = cellText(value);
  return text === null ? html`<span class="faint">null</span>` : html`<span class="cut" title=${text.length > 20 ? text.slice(0, 2_000) : undefined}>${text.slice(0, 500)}</span>`;
}

const widthOf = (column) => column.width ?? 150;

function columnsSeen(columns, { left, width }) {
  if (columns.length <= WIDE) return [0, columns.length, 0, 0];
  let from = 0;
  let before = 0;
  while (from < columns.length && before + widthOf(columns[from]) < left - 200) before += widthOf(columns[from++]);
  let to = from;
  let reached = before;
  while (to < columns.length && reached < left + width + 200) reached += widthOf(columns[to++]);
  let after = 0;
  for (let n = to; n < columns.length; n += 1) after += widthOf(columns[n]);
  return [from, to, before, after];
}

/** Rows in the order of one of their fields; null last. */
export function inOrder(rows, { by, down }) {
  const value = (row) => row[by];
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
  return [...rows].sort((one, other) => {
    const [a, b] = [value(one), value(other)];
    if (a === null || a === undefined) return b === null || b === undefined ? 0 : 1;
    if (b === null || b === undefined) return -1;
    return down ? compare(b, a) : compare(a, b);
  });
}
