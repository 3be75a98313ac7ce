package httpapi

import (
	"net/http"
	"regexp"

	"ao/coordinator/audit"

	"github.com/gin-gonic/gin"
)

// actions names the routes that change something. POST /mcp is missing: each of its tools is recorded.
var actions = map[string]string{
	"POST /runs":           audit.RunCreate,
	"POST /runs/stop":      audit.RunStop,
	"POST /runs/retry":     "run.retry",
	"POST /runs/:id/retry": "run.retry",
	"POST /runs/:id/stop":  audit.RunStop,

	"POST /sessions/:id/stop": audit.SessionStop,
	"DELETE /sessions/:id":    "session.delete",

	"POST /ledger/accept": "damage.accept",

	"POST /callbacks/redeliver":     "callback.redeliver",
	"POST /callbacks/:id/redeliver": "callback.redeliver",

	"POST /login":       audit.Login,
	"POST /logout":      "logout",
	"POST /login/codes": "login.code",

	"POST /agents":             "agent.create",
	"PATCH /agents/:name":      "agent.change",
	"POST /agents/:name/reset": "agent.reset",
	"DELETE /agents/:name":     "agent.delete",

	"PUT /agents/:name/drafts/:side":    "draft.change",
	"DELETE /agents/:name/drafts/:side": "draft.delete",

	"POST /schemas":         audit.SchemaCreate,
	"DELETE /schemas/:name": "schema.delete",

	"DELETE /runners/:id":   "runner.drain",
	"POST /runner/register": audit.Register,
}

// recorder writes changes and refusals into the audit log.
type recorder struct {
	to *audit.Log // nil: nothing is recorded
}

// note has what the request does not say itself.
type note struct {
	targets audit.Targets
	code    string // of its refusal
	written bool
}

// noteOf returns the request's note; nil: nothing is recorded.
func (r *recorder) noteOf(g *gin.Context) *note {
	if r.to == nil {
		return nil
	}
	return &exchangeOf(g).note
}

// changed notes what a request changes, where its path does not say so.
func (r *recorder) changed(g *gin.Context, t audit.Targets) {
	if n := r.noteOf(g); n != nil {
		n.targets = t
	}
}

// refused notes why a request is refused.
func (r *recorder) refused(g *gin.Context, code string) {
	if n := r.noteOf(g); n != nil {
		n.code = code
	}
}

// plainID matches ids and names that may be quoted from a path.
var plainID = regexp.MustCompile(`^[0-9A-Za-z_-]{1,80}$`)

// record writes a request's audit entry, once: for changes, and for refusals by the middleware.
func (r *recorder) record(g *gin.Context, status int) {
	n := r.noteOf(g)
	if n == nil || n.written {
		return
	}
	route := g.Request.Method + " " + g.FullPath()
	action := actions[route]
	e := audit.Entry{Request: requestID(g), EntryPoint: audit.HTTP, From: g.Request.RemoteAddr, Targets: n.targets,
		Status: status, Error: n.code}
	if action == "" {
		if status != http.StatusUnauthorized && status != http.StatusForbidden {
			return
		}
		e.Route, action = pattern(g), audit.Read
		if g.Request.Method != http.MethodGet && g.Request.Method != http.MethodHead {
			action = "request"
		}
	}
	n.written, e.Action = true, action
	e.Actor = new(audit.Who(caller(g)))
	if id := g.Param("id"); plainID.MatchString(id) && e.Run == "" {
		switch g.FullPath() {
		case "/runs/:id/stop", "/runs/:id/retry", "/callbacks/:id/redeliver":
			e.Run = id
		case "/sessions/:id", "/sessions/:id/stop":
			e.Session = id
		case "/runners/:id":
			e.Runner = id
		}
	}
	if name := g.Param("name"); plainID.MatchString(name) {
		switch g.FullPath() {
		case "/agents/:name", "/agents/:name/reset", "/agents/:name/drafts/:side":
			e.Agent = name
		case "/schemas/:name":
			e.Schema = name
		}
	}
	r.to.Record(e)
}
