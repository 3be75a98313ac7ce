/**
 * Client of Agent Orchestrator's HTTP API. It starts runs, waits for them and follows their events, also while
 * connections break and coordinators restart. It needs Node 22 or a browser, and no package.
 */

const answerTimeout = 80_000; // ms for an answer, with up to 50 s in which a request waits for the end of a run
const idleTimeout = 60_000; // ms of silence on a stream; coordinators send a comment every 15 s
const maxPause = 5; // s between tries, unless the server asks for more
const maxLine = 256 << 20; // characters of a line of a stream

/** A JSON object of the API. */
export type Json = { [member: string]: unknown };

/** Says where the coordinator is. */
export interface Config {
  /** Default AO_URL, or http://127.0.0.1:8765; in a browser the page's own origin. */
  url?: string;
  /** API token; default AO_TOKEN, or none. A browser that has logged in needs none. */
  token?: string;
  /** How long a request or a stream is retried during an outage, in seconds; default 300. */
  retryFor?: number;
}

/** What a run is started with: the body of POST /runs. */
export interface RunRequest {
  type?: "start_session" | "resume_session";
  agent_name?: string;
  session_id?: string;
  parameters?: unknown;
  prompt?: string;
  mode?: "async_poll" | "async_callback";
  parent_session_id?: string;
  project_dir?: string;
  timeout_seconds?: number;
  max_attempts?: number;
  callback_url?: string;
  output_schema?: Json;
  output_schema_name?: string;
  output_schema_options?: Json;
  additional_demands?: Json;
}

/** A run as the API describes it. What start returns has only the ids and the status. */
export interface Run {
  run_id: string;
  session_id: string;
  status: "pending" | "claimed" | "running" | "stopping" | "completed" | "failed" | "stopped";
  agent_name?: string;
  /** Identifies the agent's definition; absent: unknown. */
  agent_hash?: string;
  /** Of a failed or stopped run. */
  error?: { error: string; message: string; [member: string]: unknown } | null;
  /** Of an ended run that wait returned; absent: it has none. */
  result?: { result_text?: string | null; result_data?: unknown; exit_code?: number | null; note?: string } | null;
  [member: string]: unknown;
}

/** One event of a session. */
export interface Event {
  /** run_start, message, result, run_completed, run_failed, … */
  type: string;
  run_id: string;
  /** Where a later call continues. */
  position: string;
  /** All members. */
  document: Json;
}

/** The end of a run, as sent to its callback_url. */
export interface Webhook {
  /** The same for all deliveries of one end. */
  id: string;
  type: "run.completed" | "run.failed" | "run.stopped";
  run: Run;
}

/** Ends what it is given to, with the signal's reason as the error. */
export interface Options {
  signal?: AbortSignal;
}

/** The base of this module's errors. */
export class AoError extends Error {}

/** A refusal: an answer with a status from 300 on. */
export class APIError extends AoError {
  readonly status: number;
  /** Such as invalid_request; empty: another server answered. */
  readonly code: string;
  /** What to correct, if one field is wrong. */
  readonly field: string;
  /** Seconds. */
  readonly retryAfter: number;
  /** All members. */
  readonly document: Json;

  constructor(status: number, document: Json, retryAfter: number) {
    super(String(document["message"] ?? "not a coordinator's answer"));
    this.name = "APIError";
    this.status = status;
    this.code = String(document["error"] ?? "");
    this.field = String(document["field"] ?? "");
    this.retryAfter = retryAfter;
    this.document = document;
  }

  /** Whether the same request may succeed later. */
  get temporary(): boolean {
    return [429, 502, 503, 504].includes(this.status);
  }
}

/** There was no complete answer during the whole outage, or another server answered. */
export class UnreachableError extends AoError {
  constructor(url: string, cause: unknown) {
    super(`no answer from ${url}: ${cause instanceof Error ? cause.message : cause}`, { cause });
    this.name = "UnreachableError";
  }
}

/** A run that failed or was stopped. */
export class RunError extends AoError {
  /** Such as timeout or command_failed. */
  readonly code: string;
  readonly run: Run;

  constructor(run: Run) {
    super(run.error?.message ?? `the run is ${run.status}`);
    this.name = "RunError";
    this.code = run.error?.error ?? run.status;
    this.run = run;
  }
}

/** A webhook that is not accepted. */
export class SignatureError extends AoError {}

function ended(run: Run): boolean {
  return run.status === "completed" || run.status === "failed" || run.status === "stopped";
}

/** Spaces the retries of a request or a stream. */
class Outage {
  readonly retryFor: number;
  since = 0;
  pause = 0;

  constructor(retryFor: number) {
    this.retryFor = retryFor;
  }

  /** Waits before the next try, at least as long as the server asks. It throws if another try is useless. */
  async wait(error: unknown, signal: AbortSignal | undefined, least = 0): Promise<void> {
    signal?.throwIfAborted();
    if (error instanceof APIError && error.temporary) least = Math.max(least, error.retryAfter);
    else if (!(error instanceof UnreachableError)) throw error;
    const now = Date.now() / 1000;
    if (this.since === 0) {
      this.since = now;
      this.pause = 0.25;
    }
    const pause = Math.max(least, this.pause * (0.5 + Math.random() / 2)); // callers of one outage come back apart
    if (now + pause > this.since + this.retryFor) throw error;
    this.pause = Math.min(2 * this.pause, maxPause);
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, 1000 * pause);
      signal?.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
    });
    signal?.throwIfAborted();
  }
}

/** Calls one deployment. */
export class Client {
  readonly url: string;
  readonly retryFor: number;
  readonly #token: string;

  constructor(config: Config = {}) {
    const at = globalThis as { process?: { env?: Record<string, string> }; location?: { origin: string } };
    const url = config.url || at.process?.env?.["AO_URL"] || at.location?.origin || "http://127.0.0.1:8765";
    this.url = url.replace(/\/+$/, "");
    this.#token = config.token ?? at.process?.env?.["AO_TOKEN"] ?? "";
    this.retryFor = config.retryFor ?? 300;
  }

  /** Starts a run. It repeats the request under one key until it is answered, so it starts one run. */
  async start(request: RunRequest, options: Options & { key?: string } = {}): Promise<Run> {
    const key = options.key ?? newKey();
    return await this.#run("POST", "/runs", { body: request, key, signal: options.signal });
  }

  /** Returns the run with its result once it has ended, however it ended. */
  async wait(runID: string, options: Options = {}): Promise<Run> {
    for (;;) {
      const path = `/runs/${encodeURIComponent(runID)}/wait?timeout_seconds=50`;
      const run = await this.#run("GET", path, options);
      if (ended(run)) return run;
    }
  }

  /** Is start and wait. It throws a RunError if the run does not complete. */
  async run(request: RunRequest, options: Options & { key?: string } = {}): Promise<Run> {
    const run = await this.wait((await this.start(request, options)).run_id, options);
    if (run.status !== "completed") throw new RunError(run);
    return run;
  }

  /** Returns a run as it is now, without its result. */
  async get(runID: string, options: Options = {}): Promise<Run> {
    return await this.#run("GET", `/runs/${encodeURIComponent(runID)}`, options);
  }

  /** Asks for the end of a run and returns it as it is then. */
  async stop(runID: string, options: Options = {}): Promise<Run> {
    return await this.#run("POST", `/runs/${encodeURIComponent(runID)}/stop`, options);
  }

  async #run(method: string, path: string, options: Options & { body?: unknown; key?: string }): Promise<Run> {
    const run = (await this.call(method, path, options)) as Run | null;
    if (typeof run?.run_id === "string") return run;
    throw new UnreachableError(this.url, `not a coordinator's answer: ${JSON.stringify(run).slice(0, 80)}`);
  }

  /**
   * Sends any request of the API, such as GET /runs?status=failed, and returns the document of the answer. It retries
   * during an outage, so a request that must not be repeated needs an idempotency key.
   */
  async call(method: string, path: string, options: Options & { body?: unknown; key?: string } = {}): Promise<Json> {
    const outage = new Outage(this.retryFor);
    for (;;) {
      try {
        return await this.once(method, path, options);
      } catch (error) {
        await outage.wait(error, options.signal);
      }
    }
  }

  /** Yields the events of a run, each once, from a position on (default: the first) until the run has ended. */
  async *events(runID: string, options: Options & { after?: string } = {}): AsyncGenerator<Event, void> {
    const run = await this.get(runID, options);
    yield* new Stream(this, run.session_id, runID, options).read();
  }

  /** Yields the events of all runs of a session, until the session is deleted. */
  async *sessionEvents(sessionID: string, options: Options & { after?: string } = {}): AsyncGenerator<Event, void> {
    yield* new Stream(this, sessionID, "", options).read();
  }

  /** Sends a request once. @internal */
  async once(method: string, path: string, options: Options & { body?: unknown; key?: string }): Promise<Json> {
    const over = new AbortController();
    const limit = setTimeout(() => over.abort(), answerTimeout); // Node ends while it waits for AbortSignal.timeout
    const signal = options.signal ? AbortSignal.any([options.signal, over.signal]) : over.signal;
    try {
      const response = await this.send(method, path, signal, options.body, { "Idempotency-Key": options.key ?? "" });
      const text = await response.text();
      return text === "" ? {} : (JSON.parse(text) as Json);
    } catch (cause) {
      throw cause instanceof AoError ? cause : new UnreachableError(this.url, cause);
    } finally {
      clearTimeout(limit);
    }
  }

  /** Returns an answer whose body is not yet read. @internal */
  async send(
    method: string, path: string, signal: AbortSignal, body: unknown, header: Record<string, string>,
  ): Promise<Response> {
    const headers = new Headers();
    for (const [name, value] of Object.entries(header)) if (value !== "") headers.set(name, value);
    if (this.#token !== "") headers.set("Authorization", `Bearer ${this.#token}`);
    if (body !== undefined) headers.set("Content-Type", "application/json");
    const init: RequestInit = { method, headers, signal, redirect: "manual" }; // the token reaches no other server
    if (body !== undefined) init.body = JSON.stringify(body);
    let response: Response;
    let text: string;
    try {
      response = await fetch(this.url + path, init);
      if (response.ok) return response;
      text = await response.text();
    } catch (cause) {
      throw new UnreachableError(this.url, cause);
    }
    let document: unknown;
    try {
      document = JSON.parse(text) ?? {};
    } catch {
      document = {}; // another server's answer
    }
    throw new APIError(response.status, document as Json, Number(response.headers.get("Retry-After")) || 0);
  }
}

/** The state of a stream across its connections. */
class Stream {
  readonly client: Client;
  readonly session: string;
  readonly runID: string;
  readonly signal: AbortSignal | undefined;
  readonly outage: Outage;
  after: string;
  furthest: string; // position, of all so far
  done = false;

  constructor(client: Client, sessionID: string, runID: string, options: Options & { after?: string }) {
    this.client = client;
    this.session = encodeURIComponent(sessionID);
    this.runID = runID;
    this.signal = options.signal;
    this.after = this.furthest = options.after ?? "";
    this.outage = new Outage(client.retryFor);
  }

  async *read(): AsyncGenerator<Event, void> {
    while (!this.done) {
      try {
        yield* this.connection();
      } catch (error) {
        await this.outage.wait(error, this.signal, 1);
      }
    }
  }

  /** Reads one connection. Without an error the next one follows at once. */
  async *connection(): AsyncGenerator<Event, void> {
    const over = new AbortController();
    const signal = this.signal ? AbortSignal.any([this.signal, over.signal]) : over.signal;
    let idle = setTimeout(() => over.abort(), idleTimeout);
    try {
      const path = `/sse/sessions?session_id=${this.session}`;
      const response = await this.client.send("GET", path, signal, undefined, { "Last-Event-ID": this.after });
      const opened = Date.now();
      let fields: Record<string, string> = { id: this.after };
      for await (const line of lines(response, this.client.url, this.outage)) {
        clearTimeout(idle);
        idle = setTimeout(() => over.abort(), idleTimeout);
        if (line !== "") {
          const [, name, value] = /^([^:]*):? ?([^]*)$/.exec(line)!;
          fields[name!] = value!; // "": a comment
          continue;
        }
        const [before, id, event] = [this.after, fields["id"]!, fields["event"] ?? ""];
        if (event === "error") { // the next connection is told why
          if (Date.now() - opened > 1000 * maxPause) this.outage.since = 0; // a quiet stream, not an outage
          throw new UnreachableError(this.client.url, fields["data"]);
        }
        yield* this.message(event, fields["data"] ?? "", id);
        const listed = event === "init" && this.after !== before && this.after !== id;
        if (this.done || listed) return; // the stream continues after what was listed
        fields = { id };
      }
    } finally {
      clearTimeout(idle);
      over.abort();
    }
  }

  async *message(name: string, data: string, position: string): AsyncGenerator<Event, void> {
    if (name === "" || name === "gap") return; // a gap is followed by init
    if (name === "init") { // the stream sends only later events
      const before = this.after;
      yield* this.list();
      if (this.done || this.after !== before) return;
      const runs = this.parsed(() => [...((JSON.parse(data) as { runs?: Run[] }).runs ?? [])]);
      this.done = runs.some((run) => run?.run_id === this.runID && ended(run));
    } else if (name === "event") {
      yield* this.mine(this.parsed(() => newEvent(JSON.parse(data) as Json, position)));
    } else if (name === "session_deleted") {
      this.done = true;
    }
    this.advance(position);
  }

  /** Continues after a position. Only one beyond all before ends an outage: what failed may come again. */
  advance(position: string): void {
    this.after = position;
    if (position.localeCompare(this.furthest, "en", { numeric: true }) <= 0) return;
    this.furthest = position;
    this.outage.since = 0;
  }

  async *list(): AsyncGenerator<Event, void> {
    for (;;) {
      const path = `/sessions/${this.session}/events?limit=500&after=${encodeURIComponent(this.after)}`;
      const page = await this.client.once("GET", path, { signal: this.signal });
      const events = this.parsed(() => { // a page is given as a whole, or again
        const documents = [...(page["events"] as Json[])];
        return documents.map((one, i) => newEvent(one, i === documents.length - 1 ? page["next"] : this.after));
      });
      for (const event of events) {
        yield* this.mine(event);
        if (this.done) return;
      }
      if (events.length === 0) return;
      this.advance(events.at(-1)!.position);
    }
  }

  *mine(event: Event): Generator<Event, void> {
    if (this.runID !== "" && event.run_id !== this.runID) return;
    this.done = this.runID !== "" && ["run_completed", "run_failed", "run_stopped"].includes(event.type);
    yield event;
  }

  /** Turns what no coordinator sends into an outage. */
  parsed<T>(parse: () => T): T {
    try {
      return parse();
    } catch (cause) {
      throw new UnreachableError(this.client.url, cause);
    }
  }
}

function newEvent(document: Json, position: unknown): Event {
  const [type, run_id] = [document["event_type"], document["run_id"] ?? ""];
  if (typeof type !== "string" || typeof run_id !== "string" || typeof position !== "string") {
    throw new TypeError("not an event of a coordinator");
  }
  return { type, run_id, position, document };
}

/** Yields the lines of a stream. A broken connection is an error, and so is its end. */
async function* lines(response: Response, url: string, outage: Outage): AsyncGenerator<string, void> {
  const reader = response.body!.getReader();
  const decoder = new TextDecoder();
  let rest: string[] = []; // parts of a line, joined once
  let length = 0;
  const start = Date.now();
  let last = start;
  try {
    for (;;) {
      const chunk = await reader.read();
      if (chunk.done) throw new Error("the stream ended");
      const parts = decoder.decode(chunk.value, { stream: true }).split("\n");
      length += parts[0]!.length;
      if (length > maxLine) throw new Error("a line has no end");
      rest.push(parts.shift()!);
      if (parts.length === 0) continue;
      parts.unshift(rest.join(""));
      rest = [parts.pop()!];
      length = rest[0]!.length;
      last = Date.now();
      yield* parts.map((line) => line.replace(/\r$/, ""));
    }
  } catch (cause) {
    if (last - start > 1000 * maxPause) outage.since = 0; // a quiet stream, not an outage
    throw new UnreachableError(url, cause);
  } finally {
    reader.cancel().catch(() => {});
  }
}

function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}

/**
 * Checks the signature of a request to a callback_url and returns what it says, or throws a SignatureError. The secrets
 * are those of AO_CALLBACK_SECRET; one that fits is enough. A receiver may see a delivery twice: it compares the id.
 */
export async function verifyWebhook(
  body: Uint8Array<ArrayBuffer>, headers: Headers | Record<string, string>, ...secrets: string[]
): Promise<Webhook> {
  const all = new Headers(headers);
  const [id, at] = [all.get("webhook-id") ?? "", all.get("webhook-timestamp") ?? ""];
  if (id === "" || !/^\d+$/.test(at) || Math.abs(Date.now() / 1000 - Number(at)) > 300) {
    throw new SignatureError("its id or time is missing, or more than five minutes off");
  }
  const signed = new Uint8Array(await new Blob([`${id}.${at}.`, body]).arrayBuffer());
  const signatures = (all.get("webhook-signature") ?? "").split(" ").filter((one) => one.startsWith("v1,"));
  for (const secret of secrets) {
    const hmac = { name: "HMAC", hash: "SHA-256" };
    const key = await crypto.subtle.importKey("raw", bytes(secret.replace(/^whsec_/, "")), hmac, false, ["verify"]);
    for (const one of signatures) {
      if (await crypto.subtle.verify("HMAC", key, bytes(one.slice(3)), signed)) {
        const document = JSON.parse(new TextDecoder().decode(body)) as { type: Webhook["type"]; data: Run };
        return { id, type: document.type, run: document.data };
      }
    }
  }
  throw new SignatureError("no signature is by one of the secrets");
}

function bytes(base64: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  } catch {
    throw new SignatureError("a secret or a signature is not base64");
  }
}
