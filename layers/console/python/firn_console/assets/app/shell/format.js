// Values as people read them.
const NUMBER = new Intl.NumberFormat("en");
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];

export const NONE = "–";

/** 1234567 -> 1,234,567. */
export const count = (value) => (value === null || value === undefined ? NONE : NUMBER.format(value));

/** 1234567 -> 1.2M. */
export const short = (value) => (value === null || value === undefined ? NONE : SHORT.format(value));

/** "1 letter", "2 letters". */
export const counted = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

/** Bytes, in decimal units. */
export function size(bytes) {
  if (bytes === null || bytes === undefined) return NONE;
  let value = bytes;
  let unit = 0;
  for (; value >= 1000 && unit < UNITS.length - 1; unit += 1) value /= 1000;
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

/** Seconds as a duration: 0.4 s, 12 s, 3 min, 2 h, 5 d. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

/** How long ago an RFC 3339 time was. */
export function age(time, now = Date.now()) {
  const at = time ? Date.parse(time) : NaN;
  if (Number.isNaN(at)) return NONE;
  const seconds = (now - at) / 1000;
  return seconds < 2 ? "just now" : `${duration(Math.max(seconds, 0))} ago`;
}

/** An RFC 3339 time in UTC to the second: 2026-01-31 12:00:00. */
export function clock(time) {
  const at = new Date(time);
  return Number.isNaN(at.getTime()) ? NONE : at.toISOString().slice(0, 19).replace("T", " ");
}

/** A cell's value as text; null is null. Nested values as JSON. */
export function cellText(value) {
  if (value === null || value === undefined) return null;
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** An identifier as SQL takes it: always quoted, for a column may be called order. */
export const quoted = (name) => `"${name.replaceAll('"', '""')}"`;

const PLAIN = /^[a-z_][a-z0-9_]*$/;

/** A table's name as SQL takes it, and the query function's addresses: "shop.Mixed Case" -> shop."Mixed Case". `all`:
 * plain parts too, which may be words of SQL. */
export function sqlName(table, all = false) {
  const dot = table.indexOf(".");
  if (dot < 1) return table;
  const parts = [table.slice(0, dot), table.slice(dot + 1)];
  return parts.map((one) => (PLAIN.test(one) && !all ? one : quoted(one))).join(".");
}

/** The inverse: shop."Mixed Case" -> "shop.Mixed Case". */
export function tableName(sql) {
  const found = /^("(?:[^"]|"")+"|[^".]+)\.("(?:[^"]|"")+"|[^"]+)$/s.exec(sql);
  if (!found) return sql;
  return found.slice(1).map((one) => (one[0] === '"' ? one.slice(1, -1).replaceAll('""', '"') : one)).join(".");
}

const ODD = /[\p{C}\p{Zl}\p{Zp}]/u; // would act on a terminal, or on what a person reads

/** Text as one word of a shell, whatever it holds. */
export function shellWord(text) {
  if (/^[\w@%+=:,./-]+$/.test(text)) return text;
  if (!ODD.test(text)) return `'${text.replaceAll("'", `'\\''`)}'`;
  // Of dash, which has no such quotes, `\'` would end the word.
  const escaped = (one) => (one === "\\" ? "\\x5c" : one === "'" ? "\\x27" : ODD.test(one) && one !== "\n" ? `\\U${one.codePointAt(0).toString(16).padStart(8, "0")}` : one === "\n" ? "\\n" : one);
  return `$'${[...text].map(escaped).join("")}'`;
}
