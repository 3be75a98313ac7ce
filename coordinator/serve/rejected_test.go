package serve_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ao/coordinator/health"
	"ao/coordinator/rejected"
	"ao/nats/natstest"
	"ao/nats/subject"

	"github.com/nats-io/nats.go"
)

// TestRefusedInboxMessagesCanBeSeen: newest first, page by page, with the reasons, by administrators. Large bodies are
// cut, and what a worker could not read shows none of its content. The doctor tells of them.
func TestRefusedInboxMessagesCanBeSeen(t *testing.T) {
	t.Parallel()
	s := secure(t)
	if p := into[rejected.Page](s.get("/rejected", s.admin), 200); p.Messages == nil || len(p.Messages) != 0 {
		t.Errorf("before all: %+v", p)
	}
	s.finds("inbox", health.OK, "no message was refused", s.admin)
	leave := func(subj string, body string, header nats.Header) {
		t.Helper()
		m := &nats.Msg{Subject: subj, Data: []byte(body), Header: header}
		_, err := s.nc.RequestMsg(m, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		natstest.Until(t, "it is refused", func() bool {
			p := into[rejected.Page](s.get("/rejected?limit=1", s.admin), 200)
			return len(p.Messages) == 1 && p.Messages[0].Bytes == len(body)
		})
	}
	long := `{"mode":"sync","agent_name":"nobody","prompt":"` + strings.Repeat("ü", 100_000) + `"}`
	leave(subject.InboxRuns, `{"mode":"sync","agent_name":"nobody","prompt":"one"}`, nil)
	leave(subject.InboxRuns, "not JSON \xff", nil)
	leave("ao.inbox.elsewhere", `{}`, nil)
	leave(subject.InboxRuns, long, nil)
	leave(subject.RejectedRuns, `{"key":"secret"}`, nats.Header{"Ao-Subject": {"ao.runs.queued.x"},
		"Ao-Reason": {"it cannot be read"}})

	var got []rejected.Message
	for next := ""; ; {
		p := into[rejected.Page](s.get("/rejected?limit=2&cursor="+next, s.admin), 200)
		got = append(got, p.Messages...)
		next = p.Next
		if next == "" {
			break
		}
	}
	want := []struct{ subject, reason, body string }{
		{"ao.runs.queued.x", "it cannot be read", ""},
		{subject.InboxRuns, `does not wait`, long},
		{"ao.inbox.elsewhere", "There is no inbox ao.inbox.elsewhere", `{}`},
		{subject.InboxRuns, "JSON", "not JSON \uFFFD"},
		{subject.InboxRuns, "does not wait", `{"mode":"sync","agent_name":"nobody","prompt":"one"}`},
	}
	if len(got) != len(want) {
		t.Fatalf("%d messages: %+v", len(got), got)
	}
	for i, w := range want {
		m, body := got[i], ""
		if m.Body != nil {
			body = *m.Body
		}
		if m.Subject != w.subject || !strings.Contains(m.Reason, w.reason) || (m.Body == nil) != (w.body == "") ||
			m.Time.IsZero() || m.Sequence != uint64(len(want)-i) || m.Truncated != (w.body == long) ||
			!m.Truncated && body != w.body ||
			m.Truncated && (len(body) > 4200 || !strings.HasPrefix(long, body[:4000])) {
			t.Errorf("message %d is %s: %+v, want %+v", i, body[:min(len(body), 99)], m, w)
		}
	}
	s.finds("inbox", health.Warn, fmt.Sprintf("%d refused messages", len(want)), s.admin)
	s.get("/rejected", s.run).want(403)
	s.get("/rejected").want(401)
	for _, query := range []string{"cursor=x", "cursor=-1", "limit=0", "limit=101", "after=1"} {
		s.get("/rejected?"+query, s.admin).want(400)
	}
	if p := into[rejected.Page](s.get("/rejected?cursor=1", s.admin), 200); len(p.Messages) != 0 || p.Next != "" {
		t.Errorf("before the first: %+v", p)
	}
}
