package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
	"ao/worker/profile"
)

// ownProcedural returns a profile of procedural agents with an executor of one's own, and its folder. The agent is
// stats.
func ownProcedural(t *testing.T, script string) (func(*Config), string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"p.json":            `{"type":"procedural","command":"./own","agents_dir":"agents","config":{"level":2}}`,
		"own":               "#!/bin/sh\n" + script + "\n",
		"agents/stats.json": `{"name":"stats","command":"./stats"}`,
		"agents/stats":      "#!/bin/sh\necho \"ran $*\"\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p, err := profile.Read(dir, "p")
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.Executor, c.Profile = nil, p }, dir
}

// TestOwnProceduralExecutor: it gets the run as an autonomous executor does, with the path of the agent's program. Its
// result has an exit code, as that of the built-in one.
func TestOwnProceduralExecutor(t *testing.T) {
	t.Parallel()
	const stats = `"$(sed 's/.*"agent_blueprint":{[^}]*"command":"\([^"]*\)".*/\1/')"`
	for _, tt := range []struct{ name, script, want string }{
		{"the document", `case $(cat) in *'"executor_config":{"level":2}'*'"attempt":1'*) echo '[1]';; esac`,
			`completed procedural [1] 0`},
		{"the agent's program", stats + ` --a 1`, `completed procedural "ran --a 1" 0`},
		{"an exit code", `echo '{"half":1}'; echo why >&2; exit 7`,
			`failed executor_failed why procedural {"half":1} 7`},
		{"nothing but an exit code", `exit 7`, `failed executor_failed Process exited with code 7 procedural null 7`},
		{"a result line",
			`echo '{"type":"result","result_data":2,"exit_code":5,"error":{"error":"no_table",` +
				`"message":"gone"}}'; exit 1`,
			`failed no_table gone procedural 2 5`},
		{"it binds nothing", `echo '{"type":"bind","executor_session_id":"x"}'; ` +
			`echo '{"type":"result","result_data":3}'`,
			`completed procedural 3 0`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := natstest.Bus(t)
			s := newFakeCoordinator(t, b)
			own, _ := ownProcedural(t, tt.script)
			start(t, b, nil, own)
			q := s.enqueue(func(q *run.Queued) {
				q.Agent, q.Input.Blueprint = "stats", []byte(`{"name":"stats","command":"./stats"}`)
			})
			e := s.waitEnded(q)
			got := string(e.Status)
			if e.Error != nil {
				got += " " + e.Error.Code + " " + e.Error.Message
			}
			switch r := e.Result; {
			case r == nil || r.ExitCode == nil:
				got += fmt.Sprintf(" no exit code: %+v", r)
			case r.Text != nil:
				got += fmt.Sprintf(" %s %q %d", r.Type, *r.Text, *r.ExitCode)
			default:
				got += fmt.Sprintf(" %s %s %d", r.Type, r.Data, *r.ExitCode)
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if _, err := b.Last(t.Context(), subject.Bound(subject.Partition(q.SessionID), q.ID, q.Key)); err == nil {
				t.Error("a procedural run is bound")
			}
		})
	}
}

// TestMissingOwnProceduralExecutor: without its program the runner takes no runs, and says so.
func TestMissingOwnProceduralExecutor(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	newFakeCoordinator(t, b)
	own, dir := ownProcedural(t, `echo 1`)
	w := start(t, b, nil, own)
	if u := w.rests.unable(); u != nil {
		t.Fatalf("at first: %+v", u)
	}
	if err := os.Remove(filepath.Join(dir, "own")); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "it is unable", func() bool {
		u := w.rests.unable()
		return u != nil && u.Code == "executor_not_found" && strings.Contains(u.Message, "own does not exist")
	})
	if err := os.WriteFile(filepath.Join(dir, "own"), []byte("#!/bin/sh\necho 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "it works again", func() bool { return w.rests.unable() == nil })
}
