// What the coordinator would say to an order, asked a moment after the last change. Nothing is stored.
import { useEffect, useRef, useState } from "../../base.js";
import { ApiError, judge } from "../../lib/api.js";
import { object, quote } from "../../lib/json.js";

/**
 * useVerdict returns {ok, error, schema}: the answer of POST /runs/validate, its refusal, and the text of the schema that
 * the parameters of the order's agent have to match; null where it has none, undefined until the coordinator answered.
 */
export function useVerdict(body, ready, order) {
  const [state, setState] = useState({});
  const [schema, setSchema] = useState({ agent: "", text: null });
  const running = useRef(null);
  const ask = async (text, take) => {
    running.current?.abort();
    const mine = (running.current = new AbortController());
    let ok, error;
    try {
      ok = await judge("/runs/validate", text, { signal: mine.signal, patience: 4000 });
    } catch (err) {
      if (mine.signal.aborted || !(err instanceof ApiError)) return;
      error = err;
    }
    if (!mine.signal.aborted) take({ ok, error });
  };
  const learn = ({ ok, error }) => {
    const found = ok?.parameters_schema ?? error?.body?.parameters_schema;
    if (found !== undefined) setSchema({ agent: order.agent, text: found?.text ?? null });
  };
  useEffect(() => {
    if (!order.agent || schema.agent === order.agent) return;
    ask(object([["agent_name", quote(order.agent)], ["parameters", "{}"]]), (v) => (learn(v), setState(v)));
  }, [order.agent]);
  useEffect(() => {
    if (!ready) return;
    const timer = setTimeout(() => ask(body, (v) => (setState(v), order.session === "new" && learn(v))), 500);
    return () => clearTimeout(timer);
  }, [body, ready]);
  useEffect(() => () => running.current?.abort(), []);
  return { ...state, schema: schema.agent === order.agent ? schema.text : state.ok || state.error ? null : undefined };
}
