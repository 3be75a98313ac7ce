package serve_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ao/coordinator/audit"
	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
)

// record reads the audit log as far as it is written.
func record(t *testing.T, path string) (all []audit.Entry) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
		var e audit.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, e)
	}
	return all
}

// recorded finds lines that have all of this: entry point, kind and name of the actor, action, status, error.
func recorded(all []audit.Entry, entryPoint, kind, name, action string, status int, code string) (found []audit.Entry) {
	for _, e := range all {
		if e.EntryPoint == entryPoint && e.Actor.Kind == kind && e.Actor.Name == name && e.Action == action &&
			e.Status == status &&
			e.Error == code {
			found = append(found, e)
		}
	}
	return found
}

// TestAuditOfEveryEntryPoint: every entry point leaves an entry of each change and each refusal, and none of a read or
// of contents.
func TestAuditOfEveryEntryPoint(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	s := secure(t, func(c *serve.Config) { c.AuditLog = path })
	m := think(s.stack, s.admin)
	const secret = "SECRET-PROMPT"
	ask := `{"agent_name":"mind","prompt":"hold ` + secret + `"}`

	// HTTP
	top := s.submit(ask, s.run, "X-Request-Id: mine-1")
	s.post("/runs", `{"agent_name":"nobody","prompt":"`+secret+`"}`, s.run).want(404)
	s.post("/runs/validate", ask, s.run).want(200)
	s.get("/runs", s.read).want(200)
	s.post("/runs", ask).want(401)
	s.post("/runs", ask, s.read).want(403)
	s.get("/runs/"+top.RunID, "Authorization: Bearer aot_"+secret).want(401)
	s.post("/runs", ask, s.admin, "Host: evil.example").want(403)
	s.post("/agents", `{"name":"b","system_prompt":"`+secret+`"}`, s.admin).want(201)
	s.call("PATCH", "/agents/b", `{"description":"`+secret+`"}`, s.admin).want(200)
	s.call("DELETE", "/agents/b", "", s.admin).want(204)
	s.call("DELETE", "/agents/"+strings.Repeat("x", 100), "", s.admin).want(400)
	s.post("/schemas", `{"name":"shape","schema":{"description":"`+secret+`"}}`, s.admin).want(201)
	s.call("DELETE", "/schemas/shape", "", s.admin).want(204)
	s.post("/runner/register", `{"hostname":"over-http","executor_profile":"p","executor_type":"autonomous"}`, s.admin).
		want(200)
	s.post("/runs", `{"agent_name":"mind","prompt":"now","mode":"sync"}`, s.run).want(200)

	// a session's token
	mine := bearer(m.token(top.RunID))
	child := s.submit(ask, mine)
	s.call("DELETE", "/sessions/"+child.SessionID, "", mine).want(403)
	s.post("/sessions/"+child.SessionID+"/stop", "", s.run).want(200)

	// MCP
	c := s.speak(versions[1], s.run)
	good[struct{}](c, "start_agent_session", `{"agent_name":"mind","prompt":"x","mode":"async_poll"}`)
	good[struct{}](c, "list_agent_blueprints", `{}`)
	c.refused("register_output_schema", `{"name":"x","schema":{}}`, "scope admin")

	// NATS
	created := s.request(subject.APIRunsCreate, ask).want(201)
	s.request(subject.APIRunsStop, created["run_id"].(string)).want(200)
	s.request(subject.APIRunsGet, created["run_id"].(string)).want(200)
	s.request(subject.APIRunsCreate, `{"agent_name":"nobody"}`).want(404)
	if err := s.nc.Publish(subject.InboxRuns, []byte(ask)); err != nil {
		t.Fatal(err)
	}

	s.post("/runs/"+top.RunID+"/stop", "", s.run).want(200)
	s.settled(top.RunID, s.read)
	s.call("DELETE", "/sessions/"+top.SessionID, "", s.admin).want(204)

	for _, tt := range []struct {
		entryPoint, kind, name, action string
		status                         int
		code                           string
		is                             func(audit.Entry) bool
	}{
		{"http", "token", "the-run", "run.create", 201, "", func(e audit.Entry) bool {
			return e.Run == top.RunID && e.Session == top.SessionID && e.Request == "mine-1" &&
				e.Actor.Scope == "run" && strings.HasPrefix(e.From, "127.0.0.1:") && time.Since(e.Time).
				Abs() < time.Minute
		}},
		{"http", "token", "the-run", "run.create", 404, "not_found", nil},
		{"http", "unknown", "", "run.create", 401, "unauthorized", nil},
		{"http", "token", "the-read", "run.create", 403, "forbidden", nil},
		{"http", "unknown", "", "read", 401, "unauthorized",
			func(e audit.Entry) bool { return e.Route == "/runs/:id" }},
		{"http", "unknown", "", "run.create", 403, "forbidden", nil}, // a foreign host
		{"http", "token", "the-admin", "agent.create", 201, "", func(e audit.Entry) bool { return e.Agent == "b" }},
		{"http", "token", "the-admin", "agent.change", 200, "", func(e audit.Entry) bool { return e.Agent == "b" }},
		{"http", "token", "the-admin", "agent.delete", 204, "", func(e audit.Entry) bool { return e.Agent == "b" }},
		{"http", "token", "the-admin", "agent.delete", 400, "invalid_request",
			func(e audit.Entry) bool { return e.Agent == "" }},
		{"http", "token", "the-admin", "schema.create", 201, "",
			func(e audit.Entry) bool { return e.Schema == "shape" }},
		{"http", "token", "the-admin", "schema.delete", 204, "",
			func(e audit.Entry) bool { return e.Schema == "shape" }},
		{"http", "token", "the-admin", "runner.register", 200, "",
			func(e audit.Entry) bool { return strings.HasPrefix(e.Runner, "rnr_") }},
		{"http", "session", "", "run.create", 201, "", func(e audit.Entry) bool {
			return e.Run == child.RunID && e.Actor.Session == top.SessionID && e.Actor.Run == top.RunID
		}},
		{"http", "session", "", "session.delete", 403, "forbidden",
			func(e audit.Entry) bool { return e.Session == child.SessionID }},
		{"http", "token", "the-run", "session.stop", 200, "",
			func(e audit.Entry) bool { return e.Session == child.SessionID }},
		{"http", "token", "the-run", "run.stop", 200, "", func(e audit.Entry) bool { return e.Run == top.RunID }},
		{"http", "token", "the-admin", "session.delete", 204, "",
			func(e audit.Entry) bool { return e.Session == top.SessionID }},
		{"mcp", "token", "the-run", "run.create", 201, "", func(e audit.Entry) bool {
			return e.Run != "" &&
				e.Request != "" && e.From != ""
		}},
		{"mcp", "token", "the-run", "schema.create", 403, "forbidden", nil},
		{"nats", "nats", "", "run.create", 201, "", func(e audit.Entry) bool { return e.Run == created["run_id"] }},
		{"nats", "nats", "", "run.stop", 200, "", func(e audit.Entry) bool { return e.Run == created["run_id"] }},
		{"nats", "nats", "", "run.create", 404, "not_found", nil},
		{"inbox", "nats", "", "run.create", 201, "", func(e audit.Entry) bool { return e.Run != "" }},
		{"fleet", "nats", "", "runner.register", 200, "", func(e audit.Entry) bool {
			return strings.HasPrefix(e.Runner, "rnr_") && *e.Actor.Claimed == audit.Claim{Runner: e.Runner,
				Host: "brain"}
		}},
	} {
		var found []audit.Entry
		natstest.Until(t, "a line "+tt.entryPoint+" "+tt.kind+" "+tt.action+" "+tt.code, func() bool {
			found = recorded(record(t, path), tt.entryPoint, tt.kind, tt.name, tt.action, tt.status, tt.code)
			return len(found) > 0
		})
		ok := tt.is == nil
		for _, e := range found {
			ok = ok || tt.is(e)
		}
		if !ok {
			t.Errorf("%s %s %s: no such line among %+v", tt.entryPoint, tt.action, tt.code, found)
		}
	}
	s.stop()
	raw, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(raw), secret) {
		t.Errorf("%v; what was sent is in the audit log: %s", err, raw)
	}
	for _, e := range record(t, path) {
		if e.Action == audit.Read && e.Status < 400 {
			t.Errorf("a read is recorded: %+v", e)
		}
	}
	if sync := recorded(record(t, path), "http", "token", "the-run", "run.create", 201, ""); len(sync) != 2 {
		t.Errorf("two runs were created over HTTP with that token, one of them waited for; the lines: %+v", sync)
	}
}

// settled waits until a run has ended, asked for with a token.
func (s *stack) settled(id, header string) {
	s.t.Helper()
	natstest.Until(s.t, id+" has ended", func() bool {
		return into[run.Run](s.get("/runs/"+id, header), 200).Status.Final()
	})
}

// TestASyncRunIsRecordedAtOnce: not when its end is known.
func TestASyncRunIsRecordedAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	s := start(t, func(c *serve.Config) { c.AuditLog = path })
	s.post("/agents", `{"name":"plain"}`).want(201)
	answer := s.later(func() got { return s.post("/runs", `{"agent_name":"plain","prompt":"x","mode":"sync"}`) })
	natstest.Until(t, "the line is there", func() bool {
		return len(recorded(record(t, path), "http", "anonymous", "", "run.create", 201, "")) == 1
	})
	select {
	case g := <-answer:
		t.Errorf("nobody runs it, and it ended: %s", g.body)
	default:
	}
	s.stop()
	<-answer
	if n := len(recorded(record(t, path), "http", "anonymous", "", "run.create", 201, "")); n != 1 {
		t.Errorf("%d lines of one request", n)
	}
}

// TestTheAuditLogIsRotated: SIGHUP has the file opened again. It is the process that gets the signal, so the test
// stands alone.
func TestTheAuditLogIsRotated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	s := start(t, func(c *serve.Config) { c.AuditLog = path })
	s.post("/agents", `{"name":"one"}`).want(201)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "there is a new file", func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
	s.post("/agents", `{"name":"two"}`).want(201)
	s.stop()
	if old, now := record(t, path+".1"), record(t, path); len(old) != 1 || old[0].Agent != "one" || len(now) != 1 ||
		now[0].Agent != "two" {
		t.Errorf("the old file has %+v, the new one %+v", old, now)
	}
}

// TestUnusableAuditLog stops the start.
func TestUnusableAuditLog(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	path := filepath.Join(t.TempDir(), "none", "audit.jsonl")
	err := serve.Run(ctx, serve.Config{HTTPAddr: "127.0.0.1:0", AuditLog: path,
		NATS: serve.NATSConfig{URL: "embed", Listen: "none", DataDir: t.TempDir()}})
	if err == nil || !strings.Contains(err.Error(), "AO_AUDIT_LOG") || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
}
