package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
)

// route is one way in, as the code uses it and as GET / tells of it.
type route struct {
	Method string   `json:"method"`
	Path   string   `json:"path"`
	Query  []string `json:"query,omitempty"` // parameters it knows; any other is refused by name
	Say    string   `json:"what"`
	ok     int
	do     func(*gin.Context, query) (any, error)
	live   bool // a stream without end
}

// filters are the parameters of the lists of runs and sessions.
var filters = []string{"status", "agent_name", "session_id", "parent_session_id", "created_after", "limit", "cursor"}

// routes is every way in.
func (a *API) routes() []route {
	const get, post, patch, del = http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete
	const ok, created, accepted, none = http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent
	return []route{
		{get, "/", nil, "this list", ok, a.index, false},
		{get, "/openapi.json", nil, "this list as an OpenAPI 3.1 document", ok, a.openAPI, false},
		{get, "/health", nil, "the process is alive", ok, a.health, false},
		{get, "/ready", nil, "requests can be served: 200, else 503 and why", ok, a.ready, false},
		{get, "/status", nil, "how everything stands: lanes, runs by status, slots, what happened since this coordinator's start", ok, a.status, false},
		{get, "/doctor", nil, "what of the deployment is not as it should be, and what to do, as this coordinator sees it", ok, a.doctor, false},
		{get, "/metrics", nil, "what monitoring wants to know (Prometheus's text format)", ok, a.metrics, false},
		{get, "/ledger", nil, "whether every promise was kept, read from the stream itself; ok, else what is wrong", ok, a.ledger, false},

		{post, "/runs", nil, "start a session or resume one; mode sync waits for the result", created, a.createRun, false},
		{post, "/runs/validate", nil, "the checks of POST /runs; nothing is stored", ok, a.validateRun, false},
		{get, "/runs", filters, "runs, newest first", ok, a.listRuns, false},
		{get, "/runs/:id", nil, "one run", ok, a.showRun, false},
		{get, "/runs/:id/explain", nil, "why it waits, or why it ended so, as a story with times", ok, a.explainRun, false},
		{get, "/runs/:id/result", nil, "the result of a run that has ended", ok, a.runResult, false},
		{get, "/runs/:id/wait", []string{"timeout_seconds"}, "the run and its result once it has ended (200), else the run (202)", ok, a.waitRun, false},
		{post, "/runs/:id/stop", nil, "stop a run, with tree all below it, too", ok, a.stopRun, false},

		{get, "/sessions", filters, "sessions, newest first", ok, a.listSessions, false},
		{get, "/sessions/:id", nil, "one session", ok, a.showSession, false},
		{get, "/sessions/:id/status", nil, "its status", ok, a.sessionStatus, false},
		{get, "/sessions/:id/result", nil, "the result of its newest ended run", ok, a.sessionResult, false},
		{get, "/sessions/:id/events", []string{"after", "limit"}, "what happened in it, oldest first", ok, a.sessionEvents, false},
		{post, "/sessions/:id/stop", nil, "stop what runs in it, cancel what waits; with tree all below it, too", ok, a.stopSession, false},
		{del, "/sessions/:id", nil, "delete it and all that belongs to it", none, a.deleteSession, false},
		{get, "/sse/sessions", []string{"session_id"}, "live events (text/event-stream); Last-Event-ID goes on where a reader was", ok, a.streamSessions, true},

		{get, "/callbacks", filters, "runs that call back, newest first; status: waiting, owed, delivered, undeliverable, suppressed, dead", ok, a.listCallbacks, false},
		{post, "/callbacks/:id/redeliver", nil, "try the HTTP callback of a run again, now", accepted, a.redeliver, false},

		{get, "/agents", []string{"status"}, "agents; status=broken: files that could not be read", ok, a.listAgents, false},
		{post, "/agents", nil, "define an agent", created, a.createAgent, false},
		{get, "/agents/:name", nil, "one agent", ok, a.showAgent, false},
		{patch, "/agents/:name", nil, "change members of an agent; null takes one away", ok, a.changeAgent, false},
		{del, "/agents/:name", nil, "delete an agent", none, a.deleteAgent, false},

		{get, "/schemas", nil, "output schemas that have a name", ok, a.listSchemas, false},
		{post, "/schemas", nil, "give an output schema a name; it never changes", created, a.createSchema, false},
		{get, "/schemas/:name", nil, "one output schema", ok, a.showSchema, false},
		{del, "/schemas/:name", nil, "delete an output schema that no agent names", none, a.deleteSchema, false},

		{get, "/runners", nil, "who takes runs", ok, a.listRunners, false},
		{del, "/runners/:id", nil, "drain a runner: it takes no more, finishes, goes", accepted, a.drainRunner, false},
		{post, "/runner/register", nil, "register a runner; runs are taken over NATS", ok, a.register, false},

		{post, "/mcp", nil, "the Model Context Protocol (streamable HTTP): tools that start agents and follow them", ok, a.serveMCP, false},
	}
}

// registries are the beginnings of the paths at which agents and runners are told of or changed.
var registries = []string{"/agents", "/runner", "/runs/validate"}

// knowing reads the parameters that a route knows, and hands them on.
func (a *API) knowing(r route) handler {
	needs := slices.ContainsFunc(registries, func(begin string) bool { return strings.HasPrefix(r.Path, begin) })
	return func(g *gin.Context) (any, error) {
		if needs {
			if err := a.c.Registries(); err != nil {
				return nil, err
			}
		}
		q, err := readQuery(g.Request.URL.RawQuery, r.Query)
		if err != nil {
			return nil, err
		}
		return r.do(g, q)
	}
}

func (a *API) index(*gin.Context, query) (any, error) {
	return struct {
		Name   string  `json:"name"`
		Routes []route `json:"routes"`
	}{"Agent Orchestrator", a.routes()}, nil
}

type state struct {
	Status string `json:"status"`
}

func (a *API) health(*gin.Context, query) (any, error) { return state{"ok"}, nil }

func (a *API) ready(*gin.Context, query) (any, error) {
	if err := a.cfg.Ready(); err != nil {
		return nil, err
	}
	return state{"ready"}, nil
}
