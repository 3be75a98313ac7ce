package httpapi

import "net/http"

// handlers are the handlers of the routes, by noun.
type handlers struct {
	login     *loginAPI
	service   *serviceAPI
	runs      *runsAPI
	bulk      *bulkAPI
	callbacks *callbacksAPI
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

// routes are all routes.
func (h handlers) routes() []route {
	const get, post, put, patch, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete
	const ok, created, accepted, none = http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent
	return []route{
		{get, "/", nil, "this list", ok, h.service.index, false},
		{get, "/openapi.json", nil, "this list as an OpenAPI 3.1 document", ok, h.service.openAPI, false},
		{get, "/health", nil, "the process is alive", ok, h.service.health, false},
		{get, "/ready", nil, "requests can be served: 200, else 503 and why", ok, h.service.ready, false},
		{get, "/status", nil,
			"how everything stands: queues, runs by status, slots, what happened since this coordinator's start", ok,
			h.insight.status, false},
		{get, "/doctor", nil,
			"what of the deployment is not as it should be, and what to do, as this coordinator sees it", ok,
			h.insight.doctor, false},
		{get, "/audit", []string{"actor", "action", "run", "after", "cursor", "limit"},
			"who changed what and who was refused, on every coordinator, newest first", ok, h.insight.audit, false},
		{get, "/settings", nil,
			"the settings that this coordinator goes by, and where each is from; of secrets only whether they are set",
			ok, h.service.settings, false},
		{get, "/metrics", nil, "what monitoring wants to know (Prometheus's text format)", ok, h.service.metrics,
			false},
		{get, "/ledger", nil, "whether every promise was kept, read from the stream itself; ok, else what is wrong", ok,
			h.insight.ledger, false},

		{get, "/me", nil, "who asks, and which routes they may use", ok, h.login.show, false},
		{post, "/login", nil, "a browser shows a token or a code, and gets a cookie that stands for the token", ok,
			h.login.login, false},
		{post, "/logout", nil, "end a browser's login, for every coordinator", none, h.login.logout, false},
		{post, "/login/codes", nil, "a code that logs a browser in once, within a minute, as the caller", ok,
			h.login.code, false},

		{post, "/runs", nil, "start a session or resume one; mode sync waits for the result", created, h.runs.create,
			false},
		{post, "/runs/validate", nil, "the checks of POST /runs; nothing is stored", ok, h.runs.validate, false},
		{get, "/runs", listFilters, "runs, newest first; format=csv or ndjson: all that match, as a file", ok,
			h.runs.list, false},
		{get, "/runs/count", countFilters, "how many runs match", ok, h.runs.count, false},
		{post, "/runs/stop", nil, "stop the runs that match, 1,000 at most; with tree all below them, too", ok,
			h.bulk.stop, false},
		{post, "/runs/retry", nil, "start a run like each that matches and has ended, 1,000 at most", ok, h.bulk.retry,
			false},
		{get, "/runs/:id", nil, "one run", ok, h.runs.show, false},
		{get, "/runs/:id/explain", nil, "why it waits, or why it ended so, as a story with times", ok,
			h.insight.explain, false},
		{get, "/runs/:id/result", sizeParams, "the result of a run that has ended", ok, h.runs.result, false},
		{get, "/runs/:id/wait", []string{"timeout_seconds"},
			"the run and its result once it has ended (200), else the run (202)", ok, h.runs.wait, false},
		{post, "/runs/:id/retry", nil, "start a run like this one, with changes of its request", created, h.runs.retry,
			false},
		{post, "/runs/:id/stop", nil, "stop a run, with tree all below it, too", ok, h.runs.stop, false},

		{get, "/sessions", filters, "sessions, newest first", ok, h.sessions.list, false},
		{get, "/sessions/:id", nil, "one session", ok, h.sessions.show, false},
		{get, "/sessions/:id/status", nil, "its status", ok, h.sessions.status, false},
		{get, "/sessions/:id/result", sizeParams, "the result of its newest ended run", ok, h.sessions.result, false},
		{get, "/sessions/:id/events", append([]string{"after", "limit"}, sizeParams...),
			"what happened in it, oldest first", ok, h.sessions.events, false},
		{get, "/sessions/:id/tree", []string{"limit", "cursor"},
			"it and all below it with their runs, parents before children", ok, h.sessions.tree, false},
		{post, "/sessions/:id/stop", nil, "stop what runs in it, cancel what waits; with tree all below it, too", ok,
			h.sessions.stop, false},
		{del, "/sessions/:id", nil, "delete it and all that belongs to it", none, h.sessions.delete, false},
		{get, "/sse/sessions", []string{"session_id", "max_bytes"},
			"live events (text/event-stream); Last-Event-ID goes on where a reader was", ok, h.streams.sessions, true},

		{get, "/sse/runs", countFilters,
			"a list of runs, live and conflated (text/event-stream); Last-Event-ID or Ao-Position goes on behind that",
			ok, h.streams.watch, true},

		{get, "/callbacks", filters,
			"runs that call back, newest first; status: waiting, owed, delivered, undeliverable, suppressed, dead", ok,
			h.callbacks.list, false},
		{post, "/callbacks/redeliver", nil, "try the HTTP callbacks that match again, now, 1,000 at most", ok,
			h.bulk.redeliver, false},
		{post, "/callbacks/:id/redeliver", nil, "try the HTTP callback of a run again, now", accepted,
			h.callbacks.redeliver, false},

		{get, "/agents", []string{"status"}, "agents; status=broken: files that could not be read", ok, h.agents.list,
			false},
		{post, "/agents", nil, "define an agent", created, h.agents.create, false},
		{post, "/agents/preview", nil,
			"what a run of a definition would be given, and which runners would take it; nothing is stored", ok,
			h.previews.agent, false},
		{get, "/agents/:name", nil, "one agent", ok, h.agents.show, false},
		{patch, "/agents/:name", nil, "change members of an agent; null takes one away", ok, h.agents.change, false},
		{del, "/agents/:name", nil, "delete an agent", none, h.agents.delete, false},
		{get, "/agents/:name/drafts/:side", nil, "the text of a schema that is being written; side: input, output", ok,
			h.drafts.show, false},
		{put, "/agents/:name/drafts/:side", nil, "keep the text of a schema that is being written, JSON or not yet",
			none, h.drafts.put, false},
		{del, "/agents/:name/drafts/:side", nil, "drop a draft", none, h.drafts.delete, false},

		{get, "/schemas", nil, "output schemas that have a name", ok, h.schemas.list, false},
		{post, "/schemas", nil, "give an output schema a name; it never changes", created, h.schemas.create, false},
		{post, "/schemas/validate", nil, "the verdict on a schema, and on an answer to it; nothing is stored", ok,
			h.previews.schema, false},
		{get, "/schemas/:name", nil, "one output schema", ok, h.schemas.show, false},
		{del, "/schemas/:name", nil, "delete an output schema that no agent names", none, h.schemas.delete, false},

		{get, "/runners", nil, "who takes runs", ok, h.runners.list, false},
		{del, "/runners/:id", nil, "drain a runner: it takes no more, finishes, goes", accepted, h.runners.drain,
			false},
		{post, "/runner/register", nil, "register a runner; runs are taken over NATS", ok, h.runners.register, false},

		{post, "/mcp", nil, "the Model Context Protocol (streamable HTTP): tools that start agents and follow them", ok,
			h.mcp.serve, false},
	}
}
