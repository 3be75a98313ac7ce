// What a page loads: data, loading, error, and a reload that keeps what is shown.
import { useCallback, useEffect, useRef, useState } from "../base.js";
import { ApiError, backoff } from "./api.js";

/**
 * useResource calls load(signal) when the page appears and whenever deps change, and returns {data, error, loading,
 * reload, setData}. What was shown stays while it reloads. Errors that may pass are tried again with back-off.
 */
export function useResource(load, deps, { keep = true } = {}) {
  const [state, setState] = useState({ loading: true });
  const current = useRef(null);
  const alive = useRef(true);
  const start = useCallback(async (fresh) => {
    current.current?.abort();
    const mine = (current.current = new AbortController());
    setState((s) => ({ data: fresh && !keep ? undefined : s.data, stale: fresh, error: undefined, loading: true }));
    for (let n = 0; !mine.signal.aborted; n++) {
      try {
        const data = await load(mine.signal);
        if (!mine.signal.aborted) setState({ data, loading: false });
        return data;
      } catch (error) {
        if (mine.signal.aborted) return;
        const passing = error instanceof ApiError && error.passing;
        if (!passing && !(error instanceof ApiError)) console.error(error);
        setState((s) => ({ ...s, error, loading: passing }));
        if (!passing) return;
        await new Promise((done) => setTimeout(done, backoff(n, error.retryAfter)));
      }
    }
  }, deps);
  useEffect(() => {
    alive.current = true;
    start(true);
    return () => {
      alive.current = false;
      current.current?.abort();
    };
  }, [start]);
  const setData = useCallback((change) => alive.current && setState((s) => ({ ...s, data: typeof change === "function" ? change(s.data) : change })), []);
  return { ...state, reload: useCallback(() => start(false), [start]), setData };
}

/** useEvery calls act every `seconds` while the page is visible, and once when it becomes visible again. */
export function useEvery(seconds, act, on = true) {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    if (!on) return;
    let busy = false, due = 0;
    const go = async () => {
      if (busy || document.hidden || performance.now() < due) return;
      busy = true;
      try {
        await latest.current();
      } finally {
        busy = false;
        due = performance.now() + seconds * 1000 - 50;
      }
    };
    due = performance.now() + seconds * 1000 - 50;
    const timer = setInterval(go, seconds * 1000);
    document.addEventListener("visibilitychange", go);
    return () => (clearInterval(timer), document.removeEventListener("visibilitychange", go));
  }, [seconds, on]);
}
