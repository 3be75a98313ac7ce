package serve_test

import (
	"fmt"
	"net/url"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"ao/coordinator/audit"
	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/nats/subject"

	"github.com/nats-io/nats.go/jetstream"
)

// trail is a page of GET /audit.
func (s *stack) trail(query string, header ...string) audit.Page {
	s.t.Helper()
	return into[audit.Page](s.get("/audit?"+query, header...), 200)
}

// TestTrail: what two coordinators did and refused: each lists the same, and filters find it.
func TestTrail(t *testing.T) {
	t.Parallel()
	s := secure(t)
	other := s.another(func(c *serve.Config) { c.APITokens = s.file })
	s.post("/agents", `{"name":"plain"}`, s.admin).want(201)
	natstest.Until(t, "the other coordinator knows the agent",
		func() bool { return other.get("/agents/plain", s.read).status == 200 })
	run := s.submit(`{"agent_name":"plain","prompt":"SECRET"}`, s.run)
	natstest.Until(t, "the first entries are there", func() bool { return len(s.trail("", s.admin).Entries) == 2 })
	between := time.Now()
	other.post("/runs/"+run.RunID+"/stop", "", s.admin).want(200)
	other.post("/runs", `{"agent_name":"plain","prompt":"SECRET"}`, s.read).want(403)
	cookie := s.login(s.run)
	s.post("/logout", "", cookie, page).want(204)

	const all = 6
	natstest.Until(t, "all entries are there", func() bool { return len(s.trail("", s.admin).Entries) == all })
	whole := s.trail("", s.admin)
	if theirs := other.trail("", s.admin); !reflect.DeepEqual(whole, theirs) {
		t.Errorf("one says %+v, the other %+v", whole, theirs)
	}
	if g := s.get("/audit", s.admin); len(whole.Gaps) != 0 || whole.Next != "" || strings.Contains(g.body, "SECRET") {
		t.Errorf("the whole of it: %s", g.body)
	}
	for _, tt := range []struct {
		query string
		want  int
	}{
		{"actor=the-run", 3}, {"actor=the-admin", 2}, {"actor=the-read", 1}, {"actor=token", all}, {"actor=nobody", 0},
		{"action=run", 3}, {"action=run.create", 2}, {"action=login", 1}, {"action=log", 0},
		{"run=" + run.RunID, 2}, {"run=" + run.RunID + "&action=run.stop&actor=the-admin", 1},
		{"after=" + url.QueryEscape(between.UTC().Format(time.RFC3339Nano)), 4}, {"after=2030-01-01T00:00:00Z", 0},
	} {
		if p := s.trail(tt.query, s.admin); len(p.Entries) != tt.want {
			t.Errorf("%s: %d entries, want %d: %+v", tt.query, len(p.Entries), tt.want, p.Entries)
		}
	}
	var paged []audit.Entry
	cursor := ""
	for range all + 1 {
		p := other.trail("limit=1&cursor="+cursor, s.admin)
		paged = append(paged, p.Entries...)
		cursor = p.Next
		if cursor == "" {
			break
		}
	}
	if !reflect.DeepEqual(paged, whole.Entries) || cursor != "" {
		t.Errorf("page by page: %+v, then %q", paged, cursor)
	}
	for query, field := range map[string]string{"cursor=x": "cursor", "run=x": "run", "limit=0": "limit",
		"after=x": "after"} {
		if m := s.get("/audit?"+query, s.admin).want(400); m["field"] != field {
			t.Errorf("%s: %v", query, m)
		}
	}
	for _, header := range []string{s.run, s.read} {
		s.get("/audit", header).want(403)
	}
	s.get("/audit").want(401)
}

// TestTrailOutlivesACoordinator: what it did before its end is there, and a deployment without the stream reports that.
func TestTrailOutlivesACoordinator(t *testing.T) {
	t.Parallel()
	s := start(t)
	other := s.another()
	for i := range 5 {
		s.post("/agents", fmt.Sprintf(`{"name":"a%d"}`, i)).want(201)
	}
	s.stop() // within the time in which entries wait for others
	if p := other.trail("action=agent"); len(p.Entries) != 5 || p.Entries[0].Agent != "a4" ||
		p.Entries[0].Actor.Kind != audit.Anonymous {
		t.Errorf("after its end: %+v", p.Entries)
	}
	noStream := other.another(func(c *serve.Config) { c.NoAuditStream = true })
	noStream.post("/agents", `{"name":"b"}`).want(201)
	other.post("/agents", `{"name":"c"}`).want(201)
	natstest.Until(t, "the next entry is there", func() bool { return len(other.trail("action=agent").Entries) == 6 })
	js, err := jetstream.New(s.nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), subject.Audit); err != nil {
		t.Fatal(err)
	}
	other.get("/audit").want(404)
	other.post("/agents", `{"name":"d"}`).want(201)
	other.get("/ready").want(200)
	other.get("/doctor").want(200)
}

// TestAFloodOfRefusals: a caller that is refused again and again does not displace what others did; what is not
// recorded is counted.
func TestAFloodOfRefusals(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	s := secure(t, func(c *serve.Config) { c.AuditLog = file })
	for range 700 {
		s.get("/runs", "Authorization: Bearer aot_WRONG").want(401)
		s.post("/logout", "").want(204) // nobody was logged in
	}
	for range 3 {
		s.post("/agents", `{"name":"x"}`, s.read).want(403) // another kind of actor
		s.post("/login", `{"token":"aot_WRONG"}`).want(401)
	}
	listed := func(action, by string) (entries, count int) {
		for cursor := "start"; cursor != ""; {
			p := s.trail("limit=1000&action="+action+"&actor="+by+"&cursor="+strings.TrimPrefix(cursor, "start"),
				s.admin)
			for _, e := range p.Entries {
				entries, count = entries+1, count+int(e.Count)
			}
			cursor = p.Next
		}
		return entries, count
	}
	natstest.Until(t, "some are only counted", func() bool {
		_, many := listed("audit.omitted", "unknown")
		return many > 0
	})
	reads, _ := listed("read", "unknown")
	if logouts, _ := listed("logout", "unknown"); reads+logouts < 1000 || reads+logouts > 1100 {
		t.Errorf("%d refused reads and %d logouts without a login are listed", reads, logouts)
	}
	natstest.Until(t, "refusals of a token are listed", func() bool {
		n, _ := listed("agent.create", "the-read")
		logins, _ := listed("login", "unknown")
		return n == 3 && logins == 3
	})
	refused := func() (lines, counted int) {
		for _, e := range record(t, file) {
			if e.Action == audit.Omitted {
				counted += int(e.Count)
			} else if e.Actor.Kind == audit.Unknown && e.Action != audit.Login {
				lines++
			}
		}
		return lines, counted
	}
	natstest.Until(t, "the file says that some are only counted", func() bool {
		_, counted := refused()
		return counted > 0
	})
	s.stop()
	if lines, counted := refused(); lines < 1000 || lines > 1100 || lines+counted != 1400 {
		t.Errorf("the file has %d lines of refusals, and %d more are counted", lines, counted)
	}
	if n := len(recorded(record(t, file), "http", "token", "the-read", "agent.create", 403, "forbidden")); n != 3 {
		t.Errorf("the file has %d refusals of a token", n)
	}
}
