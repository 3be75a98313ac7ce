package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// TestLimit: which limit applies, who set it, and its text.
func TestLimit(t *testing.T) {
	t.Parallel()
	const proc, auto = run.Procedural, run.Autonomous
	for _, tt := range []struct {
		kind    string
		seconds int
		by      string
		profile int
		want    string
	}{
		{proc, 90, "request", 0, "Command timed out after 90 seconds, set by request"},
		{proc, 60, "agent", 0, "Command timed out after 1 minute, set by agent"},
		{proc, 60, "agent", 60, "Command timed out after 1 minute, set by agent"},
		{proc, 300, "default", 0, "Command timed out after 5 minutes, set by default"},
		{proc, 0, "", 0, "Command timed out after 5 minutes, set by default"},
		{proc, 300, "default", 120, "Command timed out after 2 minutes, set by profile"},
		{proc, 30, "profile", 120, "Command timed out after 30 seconds, set by profile"},
		{auto, 7200, "request", 0, "Run timed out after 2 hours, set by request"},
		{auto, 60, "agent", 3600, "Run timed out after 1 minute, set by agent"},
		{auto, 3600, "default", 0, "Run timed out after 1 hour, set by default"},
		{auto, 0, "", 0, "Run timed out after 1 hour, set by default"},
		{auto, 7200, "request", 1, "Run timed out after 1 second, set by profile"},
	} {
		l := limitOf(&attempt{Queued: run.Queued{Spec: run.Spec{AgentType: tt.kind, Timeout: tt.seconds,
			TimeoutBy: tt.by}}}, tt.profile)
		if got := fmt.Sprintf("%v, set by %s", l, l.by); got != tt.want {
			t.Errorf("%s, %d s by %q, profile %d: got %s, want %s", tt.kind, tt.seconds, tt.by, tt.profile, got,
				tt.want)
		}
	}
}

// TestTimeouts: the error of a timeout says who set the limit, with real programs of both types.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		by      string
		seconds int // of the run
		profile int
	}{{"request", 5, 0}, {"agent", 5, 10}, {"default", 5, 0}, {"profile", 60, 5}} {
		// a slow machine has started the program by then
		t.Run(tt.by, func(t *testing.T) {
			t.Parallel()
			b := natstest.Bus(t)
			s := newFakeCoordinator(t, b)
			program := autonomous(t,
				`echo '{"type":"bind","executor_session_id":"m"}'; echo half done; `+
					`echo at work >&2; sleep 60 & sleep 60`)
			w := start(t, b, nil, program, func(c *Config) { c.Profile.TimeoutSeconds = tt.profile })
			by := tt.by
			if by == "profile" {
				by = "agent" // the worker is the one who knows its profile's
			}
			q := s.enqueue(func(q *run.Queued) { q.AgentType, q.Timeout, q.TimeoutBy = run.Autonomous, tt.seconds, by })
			began := time.Now()
			e := s.waitEnded(q)
			want := fmt.Sprintf(`failed timeout "Run timed out after 5 seconds" 5 by "%s"`, tt.by)
			if got := fmt.Sprintf("%s %s %q %s by %s", e.Status, code(e), e.Error.Message, field(e, "timeout_seconds"),
				field(e, "timeout_by")); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if got := field(e, "stderr_tail"); !strings.HasPrefix(got, `"at work`) {
				t.Errorf("the end of stderr is %s", got)
			}
			if e.Result == nil || e.Result.Text == nil || *e.Result.Text != "half done" ||
				time.Since(began) > 30*time.Second {
				t.Errorf("kept %+v, after %s", e.Result, time.Since(began))
			}
			w.end(t)
		})
	}
}

// TestRepeatedStop: a run that is stopped repeatedly is stopped once and has one end record.
func TestRepeatedStop(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	w := start(t,
		b,
		nil,
		autonomous(t,
			`trap 'echo asked >> asked; sleep 0.3; echo cleaned up; `+
				`yes no | head -n 5000 >&2; echo bye >&2; exit 0' TERM; echo '{"type":"event",`+
				`"event_type":"message","role":"x","content":[]}'; while :; do sleep 0.01; done`))
	q := s.enqueue(func(q *run.Queued) { q.AgentType = run.Autonomous })
	natstest.Until(t, "it runs", func() bool {
		all, err := b.Events(t.Context(), subject.RunEvents(q.SessionID, q.ID), 0, 1)
		return err == nil && len(all) == 1
	})
	for range 5 {
		s.command(w.Worker, runnerapi.Command{Type: runnerapi.CommandStop, Key: q.Key})
	}
	e := s.waitEnded(q)
	if e.Status != run.Stopped || code(e) != "stopped" || e.Result == nil || *e.Result.Text != "cleaned up" {
		t.Errorf("got %s %s %+v", e.Status, code(e), e.Result)
	}
	if got := field(e, "stderr_tail"); !strings.HasSuffix(got, `\nno\nbye"`) || len(got) > 4000 {
		t.Errorf("the end of stderr has %d bytes: %.100s", len(got), got)
	}
	if asked, err := os.ReadFile(filepath.Join(w.ProjectDir, "asked")); err != nil || string(asked) != "asked\n" {
		t.Errorf("it was asked to end like this: %q, %v", asked, err)
	}
	natstest.Until(t, "it is forgotten", func() bool { return !w.attempts.has(q.Key) })
	if r := s.command(w.Worker, runnerapi.Command{Type: runnerapi.CommandStop, Key: q.Key}); r.Has {
		t.Error("it still has the attempt")
	}
	if c := &w.counts; c.ended.Load() != 1 || c.refused.Load() != 0 {
		t.Errorf("got %+v", c)
	}
}
