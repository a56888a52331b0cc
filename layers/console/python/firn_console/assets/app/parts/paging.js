// Lists that come in pages: those that were loaded, and more of them as they come into sight.
import { html, useCallback, useEffect, useRef, useState } from "../../vendor/preact.js";
import { get, withQuery } from "../shell/api.js";
import { useLive } from "../shell/live.js";

const NOTHING = { rows: [], next: null, whole: true };

/**
 * The rows of `where` (a path) with `fields`, which are in each answer's `list`. The first page is live until a second
 * one is loaded; then the list stays as it is, and `newer` says that there is more at its top.
 * -> {rows, first, next, newer, error, loading, seen(first, last), refresh}: `first` is the first page's whole answer;
 * `seen` loads what comes into sight.
 */
export function usePages(where, fields, list, { every = 5_000 } = {}) {
  const address = withQuery(where, fields);
  const live = useLive(address, { every });
  const [held, setHeld] = useState(null); // {address, head, rows, next}: more than the first page
  const [error, setError] = useState(null);
  const busy = useRef(false);
  const mine = held?.address === address ? held : null;
  const head = live.value?.[list];
  const shown = mine ?? (head ? { rows: head, next: live.value.next } : NOTHING);
  const now = useRef(shown);
  now.current = { ...shown, address };
  useEffect(() => {
    setError(null);
    setHeld(null);
  }, [address]);
  const seen = useCallback(
    async (_, last) => {
      if (busy.current) return;
      busy.current = true;
      try {
        let { rows, next } = now.current;
        const before = rows;
        while (next !== null && rows.length <= last && now.current.address === address) {
          const { value } = await get(withQuery(address, { cursor: next }));
          rows = [...rows, ...value[list]];
          next = value.next;
          const reached = { address, head: before, rows, next };
          setHeld((old) => ({ ...reached, head: old?.address === address ? old.head : before }));
        }
        setError(null);
      } catch (failed) {
        setError(failed);
      } finally {
        busy.current = false;
      }
    },
    [address, list],
  );
  const refresh = useCallback(() => {
    setHeld(null);
    live.refresh();
  }, [live.refresh]);
  const newer = Boolean(mine && head && head !== mine.head);
  return { rows: shown.rows, first: live.value, next: shown.next, newer, error: error ?? live.error, loading: live.loading, seen, refresh };
}

/** Says that a list has more at its top than is shown. */
export function Newer({ pages }) {
  return pages.newer ? html`<p class="notice">There is something newer. <button type="button" onClick=${pages.refresh}>Show it</button></p>` : null;
}
