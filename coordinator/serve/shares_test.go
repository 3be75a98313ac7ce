package serve_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"ao/coordinator/projection/query"
	"ao/coordinator/serve"
	"ao/coordinator/serve/parts"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
)

// statusFrom makes a request from an address of this machine, and returns the status.
func (s *stack) statusFrom(address, request string) int {
	s.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: 5 * time.Second}
	c, err := d.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(c, request); err != nil {
		s.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		s.t.Errorf("%.40q: no answer: %v", request, err)
		return 0
	}
	defer res.Body.Close()
	return res.StatusCode
}

// TestATokenLeavesOthersTheirRequests: one token alone takes at most half of the requests in progress, however many
// connections wait.
func TestATokenLeavesOthersTheirRequests(t *testing.T) {
	t.Parallel()
	const most = 64
	s := secure(t, func(c *serve.Config) { c.Connections = most })
	s.post("/agents", `{"name":"plain"}`, s.admin).want(201)
	id := s.post("/runs", `{"agent_name":"plain","prompt":"x"}`, s.run).want(201)["run_id"]
	for range 3 * most {
		s.dial(fmt.Sprintf("GET /runs/%s/wait?timeout_seconds=60 HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n", id,
			s.read))
	}
	natstest.Until(t, "its own share is spent", func() bool {
		status, body, err := s.anew("/runs", s.read)
		return err == nil && status == 429 && strings.Contains(body, `"error":"too_many_requests"`)
	})
	for range 10 {
		for path, who := range map[string]string{"/health": "X: y", "/ready": "X: y", "/runs": s.run,
			"/status": s.admin} {
			if status, body, err := s.anew(path, who); status != 200 {
				t.Errorf("another's %s: %d %s %v", path, status, body, err)
			}
		}
	}
	if g := s.post("/login", `{"token":"`+strings.TrimPrefix(s.run, "Authorization: Bearer ")+`"}`); g.status != 200 {
		t.Errorf("another's login: %d %s", g.status, g.body)
	}
	if g := s.post("/runs", `{"agent_name":"plain","prompt":"x"}`, s.run); g.status != 201 {
		t.Errorf("another's run: %d %s", g.status, g.body)
	}
}

// TestNobodyLeavesTheRequestsToTokens: bodies that a caller without a token does not finish keep no token out, nor
// logins from other addresses, and no others for long.
func TestNobodyLeavesTheRequestsToTokens(t *testing.T) {
	t.Parallel()
	const most = 64
	s := secure(t, func(c *serve.Config) { c.Connections = most })
	login := `{"token":"` + strings.TrimPrefix(s.run, "Authorization: Bearer ") + `"}`
	whole := fmt.Sprintf("POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", len(login))
	var last net.Conn
	for range 3 * most {
		last = s.dial(whole + login[:5])
	}
	_ = last.SetDeadline(time.Now().Add(10 * time.Second))
	isProblem(t, last, 429, "too_many_requests")
	for range 10 {
		for path, who := range map[string]string{"/health": "X: y", "/ready": "X: y", "/runs": s.read} {
			if status, body, err := s.anew(path, who); status != 200 {
				t.Errorf("%s: %d %s %v", path, status, body, err)
			}
		}
	}
	if status := s.statusFrom("127.0.0.2", whole+login); status != 200 {
		t.Errorf("a login from another address: %d", status)
	}
	began := time.Now()
	natstest.Until(t, "the bodies that do not arrive are given up", func() bool {
		return s.statusFrom("127.0.0.1", whole+login) == 200
	})
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("after %v", took)
	}
}

// TestATokenLeavesOthersTheirPendingRuns: a token may have as many waiting runs as are free, and a session's tree as
// many as its token has left. What was accepted goes on.
func TestATokenLeavesOthersTheirPendingRuns(t *testing.T) {
	t.Parallel()
	const most = 24
	s := secure(t, func(c *serve.Config) { c.Coordinator = parts.Config{MaxPending: most} })
	s.post("/agents", `{"name":"plain"}`, s.admin).want(201)
	const plain = `{"agent_name":"plain","prompt":"x"}`
	fill := func(body, who, share string) (n int) {
		t.Helper()
		for ; n <= most; n++ {
			g := s.post("/runs", body, who)
			if g.status == 201 {
				id := g.want(201)["run_id"]
				natstest.Until(t, "it is counted", func() bool {
					return s.get(fmt.Sprint("/runs/", id), s.admin).status == 200
				})
				continue
			}
			if m := g.want(429); m["error"] != "too_many_pending" || m["share"] != share ||
				g.header.Get("Retry-After") != "2" {
				t.Errorf("%s, Retry-After %q", g.body, g.header.Get("Retry-After"))
			}
			break
		}
		return n
	}
	parent := s.post("/runs", plain, s.run).want(201)["session_id"]
	child := fmt.Sprintf(`{"agent_name":"plain","prompt":"x","parent_session_id":%q}`, parent)
	tree, same, other := fill(child, s.run, "session tree"), fill(plain, s.run, "token"), fill(plain, s.admin, "token")
	if tree != most/3-1 || same != most/2-most/3 || other != most/4 {
		t.Errorf("a tree got %d of %d, its token's other runs %d, another token %d", tree, most, same, other)
	}
}

// TestTheInboxWaitsForItsShare: what is in the inbox beyond its share of waiting runs keeps nobody out, and is accepted
// later. Callbacks need no share.
func TestTheInboxWaitsForItsShare(t *testing.T) {
	t.Parallel()
	const most = 200
	s := start(t, func(c *serve.Config) { c.Coordinator.MaxPending = most })
	s.post("/agents", `{"name":"plain"}`).want(201)
	parent := s.submit(`{"agent_name":"plain","prompt":"x"}`)
	child := s.submit(fmt.Sprintf(`{"agent_name":"plain","prompt":"x","mode":"async_callback","parent_session_id":%q}`,
		parent.SessionID))
	for range most {
		if r, err := s.nc.Request(subject.InboxRuns, []byte(`{"agent_name":"plain","prompt":"inbox"}`),
			5*time.Second); err != nil || strings.Contains(string(r.Data), "error") {
			t.Fatalf("publish: %v", err)
		}
	}
	count := func() int { return into[query.Count](s.get("/runs/count"), 200).N }
	natstest.Until(t, "its share is spent", func() bool { return count() >= most/2 })
	s.submit(`{"agent_name":"plain","prompt":"another's"}`)
	if n := count(); n > most*3/4 {
		t.Errorf("the inbox got %d of %d", n, most)
	}
	turns := func() int { return len(into[query.Page](s.get("/runs?session_id="+parent.SessionID), 200).Runs) }
	s.workAs(thinker("mind"), func(q run.Queued) run.Outcome { return done(`"x"`) })
	natstest.Until(t, "the child has ended, and its parent is called back", func() bool {
		return s.get("/runs/" + child.RunID).want(200)["status"] == "completed" && turns() == 2
	})
	natstest.Until(t, "all that was in the inbox is accepted", func() bool { return count() >= most+4 })
	if all := s.rejected(); len(all) > 0 {
		t.Errorf("rejected: %v", all)
	}
}
