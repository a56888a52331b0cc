// Values that stay current: ETag polling, which passes every gateway, and pauses while nobody looks.
import { useCallback, useEffect, useRef, useState } from "../../vendor/preact.js";
import { get } from "./api.js";

const SLOWEST = 30_000; // ms between two attempts while the stack does not answer
const REMEMBERED = 60; // answers, so that going back shows something at once

const answers = new Map(); // path -> {value, etag}
const asking = new Map(); // path -> the answer that is on its way: parts of a page that show the same ask once
const watchers = new Set();
let reach = { state: "waiting", at: null, error: null };

/** Hear whether the stack answers: `{state: "waiting" | "live" | "lost", at, error}`, now and whenever it changes. */
export function watchReach(heard) {
  watchers.add(heard);
  heard(reach);
  return () => watchers.delete(heard);
}

function tell(state, error = null) {
  reach = { state, at: state === "live" ? Date.now() : reach.at, error };
  for (const heard of watchers) heard(reach);
}

function keep(where, answer) {
  answers.delete(where);
  answers.set(where, answer);
  if (answers.size > REMEMBERED) answers.delete(answers.keys().next().value);
}

function shared(where, etag) {
  if (!asking.has(where)) asking.set(where, get(where, { etag }).finally(() => asking.delete(where)));
  return asking.get(where);
}

/**
 * The answer to GET `where`, asked again every `every` ms (0: once). null as `where` asks nothing.
 * -> {value, error, loading, refresh}: `value` stays what it was while an error lasts.
 */
export function useLive(where, { every = 3_000 } = {}) {
  const [state, setState] = useState(() => ({ where, value: answers.get(where)?.value, error: null }));
  const again = useRef(() => {});
  useEffect(() => {
    if (where === null) return undefined;
    const stopped = new AbortController();
    let timer = 0;
    let failures = 0;
    let busy = false;
    const look = async () => {
      if (busy || document.hidden) return;
      busy = true;
      clearTimeout(timer);
      const before = answers.get(where);
      try {
        const answer = await shared(where, before?.etag);
        if (stopped.signal.aborted) return;
        failures = 0;
        if (!answer.unchanged) {
          keep(where, answer);
          setState({ where, value: answer.value, error: null });
        } else {
          setState((old) => (old.where === where && old.error === null && old.value ? old : { where, value: answers.get(where)?.value, error: null }));
        }
        tell("live");
      } catch (error) {
        if (stopped.signal.aborted) return;
        failures += 1;
        setState((old) => ({ where, value: old.where === where ? old.value : undefined, error }));
        if (error.status === 0) tell("lost", error);
      } finally {
        busy = false;
      }
      if (!stopped.signal.aborted && (every || failures)) {
        const pause = failures ? Math.min(SLOWEST, Math.max(1_000, every) * 2 ** failures) : every;
        timer = setTimeout(look, pause);
      }
    };
    again.current = look;
    setState((old) => (old.where === where ? old : { where, value: answers.get(where)?.value, error: null }));
    look();
    document.addEventListener("visibilitychange", look);
    return () => {
      stopped.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, [where, every]);
  const refresh = useCallback(() => again.current(), []);
  const current = state.where === where ? state : { value: answers.get(where)?.value, error: null };
  return { value: current.value, error: current.error, loading: where !== null && current.value === undefined && !current.error, refresh };
}

/** The time in ms, again every `every` ms: for ages. */
export function useNow(every = 5_000) {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || setNow(Date.now()), every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}

/** `value` once it has rested for `ms`. */
export function useSettled(value, ms = 150) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}
