// Lists that come in pages: those that were loaded, and more of them as they come into sight.
import { useCallback, useEffect, useRef, useState } from "../../vendor/preact.js";
import { get, withQuery } from "../shell/api.js";
import { useLive } from "../shell/live.js";

/**
 * All pages so far of `where` (a path) with `fields`, whose rows are in the answer's `list`. The first page is live.
 * -> {rows, first, next, error, loading, more(), refresh}: `first` is the first page's whole answer.
 */
export function usePages(where, fields, list, { every = 5_000 } = {}) {
  const address = where === null ? null : withQuery(where, fields);
  const live = useLive(address, { every });
  const [rest, setRest] = useState({ address, rows: [], next: undefined });
  const [error, setError] = useState(null);
  const busy = useRef(false);
  const mine = rest.address === address ? rest : { address, rows: [], next: undefined };
  useEffect(() => setError(null), [address]);
  const next = mine.next === undefined ? (live.value?.next ?? null) : mine.next;
  const more = useCallback(async () => {
    if (busy.current || next === null) return;
    busy.current = true;
    try {
      const { value } = await get(withQuery(where, { ...fields, cursor: next }));
      setRest((old) => ({ address, rows: [...(old.address === address ? old.rows : []), ...value[list]], next: value.next }));
      setError(null);
    } catch (failed) {
      setError(failed);
    } finally {
      busy.current = false;
    }
  }, [address, next, list]);
  const head = live.value?.[list] ?? [];
  return { rows: mine.rows.length ? [...head, ...mine.rows] : head, first: live.value, next, error: error ?? live.error, loading: live.loading, more, refresh: live.refresh };
}
