// Rows of a table as one SELECT, and what it answered.
import { useEffect, useState } from "../../vendor/preact.js";
import { isLink, post } from "../shell/api.js";
import { quoted, sqlName } from "../shell/format.js";

/** `table`: its name as the console has it, "shop.Mixed Case"; it may be anything that a source calls its tables. */
export function selectOf(table, { columns, where, order, limit, offset }) {
  const list = columns?.length ? columns.map(quoted).join(", ") : "*";
  const condition = where?.trim() ? ` WHERE ${where.trim()}` : "";
  const by = order?.length ? ` ORDER BY ${order.map(quoted).join(", ")}` : "";
  return `SELECT ${list} FROM ${sqlName(table, true)}${condition}${by} LIMIT ${limit}${offset ? ` OFFSET ${offset}` : ""}`;
}

/** The answer to a query; null as `body` asks nothing. -> {value, error, loading}; `value` stays until the next is there. */
export function useQuery(body) {
  const asked = body === null ? null : JSON.stringify(body);
  const [state, setState] = useState({ asked: null });
  useEffect(() => {
    if (asked === null) return undefined;
    const stopped = new AbortController();
    post("query", JSON.parse(asked), { signal: stopped.signal }).then(
      (value) => setState({ asked, value: isLink(value) ? undefined : value, link: isLink(value) ? value : undefined }),
      (error) => error.name !== "AbortError" && setState({ asked, error }),
    );
    return () => stopped.abort();
  }, [asked]);
  return { ...state, loading: asked !== null && state.asked !== asked };
}
