package httpapi

import "net/http"

// handlers are the handlers of the routes, by noun.
type handlers struct {
	login     *loginAPI
	service   *serviceAPI
	runs      *runsAPI
	bulk      *bulkAPI
	callbacks Callbacks
	sessions  *sessionsAPI
	streams   *streamsAPI
	agents    *agentsAPI
	drafts    *draftsAPI
	schemas   *schemasAPI
	previews  *previewAPI
	runners   *runnersAPI
	insight   *insightAPI
	mcp       *mcpAPI
}

// routes returns all routes.
func (h handlers) routes() []route {
	const get, post, put, patch, del = "GET", "POST", "PUT", "PATCH", "DELETE"
	const ok, created, accepted, none = http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent
	return []route{
		{get, "/", nil, "this list", ok, h.service.index},
		{get, "/openapi.json", nil, "this list as an OpenAPI 3.1 document", ok, h.service.openAPI},
		{get, "/health", nil, "the process is alive", ok, h.service.health},
		{get, "/ready", nil, "whether requests can be served: 200, else 503 with the reason; refused: what is not " +
			"accepted", ok, h.service.ready},
		{get, "/status", nil, "queues, runs by status, slots, and counts since this coordinator started", ok,
			h.insight.status},
		{get, "/doctor", nil, "problems of the deployment and what to do, as this coordinator sees them", ok,
			h.insight.doctor},
		{get, "/audit", []string{"actor", "action", "run", "after", "cursor", "limit"},
			"changes and refusals of every coordinator, newest first; a page may be empty and have a cursor", ok,
			h.insight.audit},
		{get, "/rejected", []string{"cursor", "limit"},
			"messages of the inbox that were refused, newest first; 20 a page, at most 100", ok,
			h.insight.refusedMessages},
		{get, "/settings", nil, "this coordinator's settings and their sources; secrets only as set or unset", ok,
			h.service.settings},
		{get, "/metrics", nil, "metrics in Prometheus's text format", ok, h.service.metrics},
		{get, "/ledger", nil, "an audit of the stream: ok, else what is wrong", ok, h.insight.ledger},
		{post, "/ledger/accept", nil, "accept what the history has lost: the ledger no longer calls it wrong", ok,
			h.insight.acceptDamage},

		{get, "/me", nil, "the caller, and the routes that it may use", ok, h.login.show},
		{post, "/login", nil,
			"log a browser in with a token or a code; the answer sets a cookie. 409 where no tokens are required", ok,
			h.login.login},
		{post, "/logout", nil, "end a browser's login on every coordinator", none, h.login.logout},
		{post, "/login/codes", nil, "a code that logs a browser in as the caller, once, within a minute", ok,
			h.login.code},

		{post, "/runs", nil, "start or resume a session; mode sync waits for the result", created, h.runs.create},
		{post, "/runs/validate", checks, "check a request of POST /runs; nothing is stored", ok, h.runs.validate},
		{get, "/runs", listFilters, "runs, newest first; format=csv or ndjson: all matches as a file", ok, h.runs.list},
		{get, "/runs/count", countFilters, "the number of matching runs", ok,
			matching(listingRuns, h.runs.runs, Runs.Count)},
		{post, "/runs/stop", nil, "stop the matching runs, at most 1,000; tree: also all below them", ok, h.bulk.stop},
		{post, "/runs/retry", nil, "retry the matching runs that ended, at most 1,000", ok, h.bulk.retry},
		{get, "/runs/:id", nil, "one run", ok, byID(h.runs.runs, Runs.Show)},
		{get, "/runs/:id/definition", nil, "what the run runs: its agent's definition as it was accepted with", ok,
			h.runs.definition},
		{get, "/runs/:id/explain", nil, "why a run waits or how it ended, step by step", ok, h.insight.explain},
		{get, "/runs/:id/result", sizeParams, "the result of an ended run", ok, h.runs.result},
		{get, "/runs/:id/wait", []string{"timeout_seconds"}, "wait for the end: 200 the run with its result, else " +
			"202 the run", ok, h.runs.wait},
		{post, "/runs/:id/retry", nil, "start a run like this one, with changes", created, h.runs.retry},
		{post, "/runs/:id/stop", nil, "stop a run; tree: also all below it", ok, h.runs.stop},

		{get, "/sessions", filters, "sessions, newest first", ok,
			matching(listing, h.sessions.sessions, Sessions.Sessions)},
		{get, "/sessions/:id", nil, "one session", ok, byID(h.sessions.sessions, Sessions.Detail)},
		{get, "/sessions/:id/status", nil, "the status of a session", ok, h.sessions.status},
		{get, "/sessions/:id/result", sizeParams, "the result of its latest ended run", ok, h.sessions.result},
		{get, "/sessions/:id/events", append([]string{"after", "limit"}, sizeParams...), "its events, oldest first", ok,
			h.sessions.events},
		{get, "/sessions/:id/tree", []string{"limit", "cursor"}, "it and all sessions below it with their runs, " +
			"parents first", ok, h.sessions.tree},
		{post, "/sessions/:id/stop", nil, "stop its runs; tree: also all below it", ok, h.sessions.stop},
		{del, "/sessions/:id", nil, "delete it and everything that belongs to it; 409 while it is in use", none,
			deleteByID(h.sessions.sessions, Sessions.DeleteSession)},
		{get, "/sse/sessions", []string{"session_id", "max_bytes"},
			"live events (text/event-stream); Last-Event-ID resumes after an item", ok, h.streams.sessions},
		{get, "/sse/runs", countFilters, "a live list of runs (text/event-stream); Last-Event-ID or Ao-Position " +
			"resumes it", ok, h.streams.watch},

		{get, "/callbacks", filters, "runs with a callback, newest first; status is the callback's", ok,
			matching(listing, h.callbacks, Callbacks.Callbacks)},
		{post, "/callbacks/redeliver", nil, "retry the matching HTTP callbacks now, at most 1,000", ok,
			h.bulk.redeliver},
		{post, "/callbacks/:id/redeliver", nil, "retry the HTTP callback of a run now", accepted,
			byID(h.callbacks, Callbacks.Redeliver)},

		{get, "/agents", []string{"status"}, "agents; status=broken: files that cannot be used", ok, h.agents.list},
		{post, "/agents", nil, "define an agent", created, h.agents.create},
		{post, "/agents/preview", checks, "the prompts of a run and the runners that match; nothing is stored", ok,
			h.previews.agent},
		{get, "/agents/:name", nil, "one agent", ok, h.agents.show},
		{patch, "/agents/:name", nil, "change members of an agent; null removes one", ok, h.agents.change},
		{post, "/agents/:name/reset", nil, "replace an agent that was edited here by its unused file", ok,
			h.agents.reset},
		{del, "/agents/:name", nil, "delete an agent", none, h.agents.delete},
		{get, "/agents/:name/drafts/:side", nil, "the draft of a schema; side: input or output", ok, h.drafts.show},
		{put, "/agents/:name/drafts/:side", nil, "save a draft of a schema; it need not be valid", none, h.drafts.put},
		{del, "/agents/:name/drafts/:side", nil, "delete a draft", none, h.drafts.delete},

		{get, "/schemas", nil, "named output schemas", ok, h.schemas.list},
		{post, "/schemas", nil, "store an output schema under a name; it never changes", created, h.schemas.create},
		{post, "/schemas/validate", nil, "check a schema, and an answer against it; nothing is stored", ok,
			h.previews.schema},
		{get, "/schemas/:name", nil, "one output schema", ok, byID(h.schemas.schemas, Schemas.RowOf)},
		{del, "/schemas/:name", nil, "delete an output schema that no agent uses", none,
			deleteByID(h.schemas.schemas, Schemas.DeleteSchema)},

		{get, "/runners", nil, "the registered runners", ok, h.runners.list},
		{del, "/runners/:id", nil,
			"drain a runner: it claims nothing more, finishes and ends; or free the names of one that left", accepted,
			h.runners.drain},
		{post, "/runner/register", nil, "register a runner; it takes runs over NATS", ok, h.runners.register},

		{post, "/mcp", nil, "the Model Context Protocol (streamable HTTP): tools that start and follow agents", ok,
			h.mcp.serve},
	}
}
