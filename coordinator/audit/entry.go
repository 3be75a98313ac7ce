// Package audit records who changed what: one JSON line for each request that changes something or is refused, from any
// entry point. A line has names, ids and an outcome; never bodies, prompts, parameters or secrets. Reads are not
// recorded.
package audit

import (
	"log/slog"
	"time"

	"ao/coordinator/access"
	"ao/shared/fault"
)

// The entry points.
const (
	HTTP  = "http"
	MCP   = "mcp"
	NATS  = "nats"  // request and reply
	Inbox = "inbox" // the durable inbox
	Fleet = "fleet" // workers' requests
	Clock = "clock" // nobody asked: a time limit passed
)

// The actions that several entry points have.
const (
	RunCreate    = "run.create"
	RunStop      = "run.stop"
	SessionStop  = "session.stop"
	SchemaCreate = "schema.create"
	Register     = "runner.register"
	Deregister   = "runner.deregister"
	Login        = "login"
	Heartbeat    = "runner.heartbeat" // only when refused
	Removed      = "runner.removed"
	Read         = "read"          // only when refused
	Lost         = "audit.lost"    // lines are missing here
	Omitted      = "audit.omitted" // refusals that were only counted
)

// Actor is who did it, as far as the entry point knows.
type Actor struct {
	Kind    string `json:"kind"`
	Name    string `json:"name,omitempty"`  // of an API token
	Scope   string `json:"scope,omitempty"` // of an API token
	Session string `json:"session_id,omitempty"`
	Run     string `json:"run_id,omitempty"`
	Runner  string `json:"runner_id,omitempty"` // whose process proved its identity

	// at NATS, as its server names it: the first 20 characters of the public key
	Credential string `json:"credential,omitempty"`
	Claimed    *Claim `json:"claimed,omitempty"`
}

// Claim is who a client over NATS says it is. Nothing has proved it.
type Claim struct {
	Runner string `json:"runner_id,omitempty"`
	Host   string `json:"hostname,omitempty"`
}

// The kinds of actors.
const (
	Token       = "token"
	Session     = "session"     // an executor, with its session's token
	Anonymous   = "anonymous"   // no tokens are required
	Unknown     = "unknown"     // unknown to the entry point: refused
	Publisher   = "nats"        // NATS accepted the client, and does not say who it is
	Runner      = "runner"      // a worker, by its credential or the secret of its process
	Coordinator = "coordinator" // this process by itself
)

// Who returns the actor for a caller over HTTP or MCP.
func Who(c access.Caller) Actor {
	switch {
	case c.Session != "":
		return Actor{Kind: Session, Session: c.Session, Run: c.Run}
	case c.Name != "":
		return Actor{Kind: Token, Name: c.Name, Scope: c.Scope.String()}
	case c.KeyScope() == access.Unauthenticated.KeyScope(): // from wherever it comes
		return Actor{Kind: Anonymous}
	}
	return Actor{Kind: Unknown}
}

// Targets is what was changed, or was to be.
type Targets struct {
	Run     string `json:"run_id,omitempty"`
	Session string `json:"session_id,omitempty"`
	Agent   string `json:"agent_name,omitempty"`
	Schema  string `json:"schema_name,omitempty"`
	Runner  string `json:"runner_id,omitempty"`
	Tree    bool   `json:"tree,omitempty"` // a stop: and everything below
	Runs    int    `json:"runs,omitempty"` // a call about many: how many
}

// Entry is one line.
type Entry struct {
	Time       time.Time `json:"time"`              // default: when it is recorded
	Request    string    `json:"request,omitempty"` // X-Request-Id; over NATS none
	EntryPoint string    `json:"door,omitempty"`
	Actor      *Actor    `json:"actor,omitempty"`
	From       string    `json:"from,omitempty"` // address of the other end of the connection; over NATS not known
	Action     string    `json:"action"`
	Route      string    `json:"route,omitempty"` // of a refused read
	Targets
	Status int    `json:"status,omitempty"` // as in HTTP; a run that is waited for counts as 201 once it is accepted
	Error  string `json:"error,omitempty"`  // error code of the refusal
	Count  uint64 `json:"count,omitempty"`  // audit.lost, audit.omitted: how many lines are missing here
}

// Outcome returns the status and error code of a request; done is the status of success.
func Outcome(done int, err error) (status int, code string) {
	if err == nil {
		return done, ""
	}
	f := fault.Of(err)
	return f.Kind.Status(), f.Code
}

// attrs returns the entry as log attributes.
func (e Entry) attrs() []slog.Attr {
	all := make([]slog.Attr, 0, 16)
	add := func(key, value string) {
		if value != "" {
			all = append(all, slog.String(key, value))
		}
	}
	add("request", e.Request)
	add("door", e.EntryPoint)
	if a := e.Actor; a != nil {
		add("actor", a.Kind)
		add("token", a.Name)
		add("scope", a.Scope)
		add("by_session", a.Session)
		add("by_run", a.Run)
		add("by_runner", a.Runner)
		add("credential", a.Credential)
		if a.Claimed != nil {
			add("claimed_runner", a.Claimed.Runner)
			add("claimed_host", a.Claimed.Host)
		}
	}
	add("from", e.From)
	add("action", e.Action)
	add("route", e.Route)
	add("run", e.Run)
	add("session", e.Session)
	add("agent", e.Agent)
	add("schema", e.Schema)
	add("runner", e.Runner)
	if e.Tree {
		all = append(all, slog.Bool("tree", true))
	}
	if e.Runs != 0 {
		all = append(all, slog.Int("runs", e.Runs))
	}
	if e.Status != 0 {
		all = append(all, slog.Int("status", e.Status))
	}
	add("error", e.Error)
	if e.Count != 0 {
		all = append(all, slog.Uint64("count", e.Count))
	}
	return all
}
