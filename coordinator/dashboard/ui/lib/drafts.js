// Drafts of schemas: text that the coordinator keeps for an agent, also where it is no JSON, and never part of the agent.
import { useEffect, useRef, useState } from "../base.js";
import { ApiError, request, seg } from "./api.js";

const pause = 1000; // milliseconds after the last key

/** loadDraft reads a draft: {text, etag}, or null where there is none. */
export async function loadDraft(name, side, signal) {
  try {
    const { text, headers } = await request("GET", pathOf(name, side), { signal });
    return { text, etag: headers.get("ETag") };
  } catch (err) {
    if (err instanceof ApiError && err.status === 404) return null;
    throw err;
  }
}

const pathOf = (name, side) => `/agents/${seg(name)}/drafts/${side}`;

/**
 * useDraft keeps a draft on the server, a second after the last change. first is what loadDraft returned. It returns
 * {keep(text), flush(), safe(), state, theirs, overwrite(), take()}; an empty text takes the draft away. safe tells that the
 * server has the text. state is "", "saving",
 * "saved", "failed" or "other": somebody else changed the draft, and theirs is their text.
 */
export function useDraft(name, side, first) {
  const [state, setState] = useState("");
  const [theirs, setTheirs] = useState(null);
  const box = useRef(null);
  box.current ??= { etag: first?.etag ?? null, saved: first?.text ?? "", wanted: first?.text ?? "", timer: 0, running: null };
  const b = box.current;
  const write = async () => {
    clearTimeout(b.timer);
    await b.running;
    if (b.wanted === b.saved) return;
    const text = b.wanted;
    setState("saving");
    b.running = put(name, side, text, b.etag).then((etag) => {
      Object.assign(b, { etag, saved: text });
      setState("saved");
    }, async (err) => {
      if (!(err instanceof ApiError) || err.status !== 412) return setState("failed");
      const now = await loadDraft(name, side).catch(() => null);
      Object.assign(b, { etag: now?.etag ?? null, saved: now?.text ?? "" });
      setTheirs(now?.text ?? "");
      setState("other");
    });
    await b.running;
    b.running = null;
  };
  const latest = useRef(write);
  latest.current = write;
  useEffect(() => {
    const leave = () => latest.current();
    addEventListener("pagehide", leave);
    return () => (removeEventListener("pagehide", leave), leave());
  }, []);
  return {
    state, theirs,
    safe: () => b.wanted !== "" && b.wanted === b.saved,
    keep(text) {
      b.wanted = text;
      clearTimeout(b.timer);
      if (state !== "other") b.timer = setTimeout(() => latest.current(), pause);
    },
    flush: (text) => (text !== undefined && (b.wanted = text), latest.current()),
    overwrite: () => (setTheirs(null), latest.current()),
    take: () => ((b.wanted = b.saved), setTheirs(null), setState("saved"), b.saved),
  };
}

// put writes a draft, or takes it away, if nobody else changed it since; it returns the new ETag, null where it is gone.
async function put(name, side, text, etag) {
  const headers = { "Content-Type": "text/plain; charset=utf-8", ...(etag ? { "If-Match": etag } : { "If-None-Match": "*" }) };
  if (text !== "") return (await request("PUT", pathOf(name, side), { body: text, headers, keepalive: true })).headers.get("ETag");
  if (etag) await request("DELETE", pathOf(name, side), { headers: { "If-Match": etag }, keepalive: true });
  return null;
}
