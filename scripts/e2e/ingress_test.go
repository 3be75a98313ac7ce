package e2e

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"ao/nats/natstest"
	"ao/nats/subject"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// publisher is a client over NATS.
type publisher struct {
	*stack
	nc *nats.Conn
}

func message(at, body string, headers ...string) *nats.Msg {
	m := &nats.Msg{Subject: at, Data: []byte(body), Header: nats.Header{}}
	for i := 0; i+1 < len(headers); i += 2 {
		m.Header.Set(headers[i], headers[i+1])
	}
	return m
}

// ask sends a request and returns the answer with the code of its status header.
func (p publisher) ask(at, body string, headers ...string) reply {
	p.t.Helper()
	if p.isRolling() && at == "ao.api.runs.create" {
		headers = keyed(headers)
	}
	return p.retryUnavailable(func() (r reply) {
		m, err := p.nc.RequestMsg(message(at, body, headers...), 30*time.Second)
		if err != nil {
			p.t.Fatalf("%s: %v", at, err)
		}
		fmt.Sscan(m.Header.Get("status"), &r.code)
		r.text = string(m.Data)
		return r
	})
}

// leave publishes a message to the inbox; it is stored when leave returns.
func (p publisher) leave(body string, headers ...string) {
	p.t.Helper()
	if p.isRolling() {
		headers = keyed(headers)
	}
	var m *nats.Msg
	var err error
	stored := func() bool { return err == nil && !strings.Contains(string(m.Data), "error") }
	natstest.Poll(2*maxStall(), func() bool {
		m, err = p.nc.RequestMsg(message(subject.InboxRuns, body, headers...), 5*time.Second)
		return stored() || !p.isRolling()
	})
	if !stored() {
		p.t.Fatalf("inbox: %s: %v %v", body, err, m)
	}
}

// keyed adds a key to headers, so that the message may be sent again.
func keyed(headers []string) []string {
	if slices.Contains(headers, "Idempotency-Key") || slices.Contains(headers, "Nats-Msg-Id") {
		return headers
	}
	return append(slices.Clone(headers), "Nats-Msg-Id", rand.Text())
}

// rejected returns the refused messages with their reasons.
func (p publisher) rejected() map[string]string {
	p.t.Helper()
	js, err := p.nc.JetStream()
	if err != nil {
		p.t.Fatal(err)
	}
	all := map[string]string{}
	info, err := js.StreamInfo(subject.Rejected)
	if err != nil { // no leader; who asks asks again
		return all
	}
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq && seq > 0; seq++ {
		if m, err := js.GetMsg(subject.Rejected, seq); err == nil {
			all[string(m.Data)] = m.Header.Get("Ao-Reason")
		}
	}
	return all
}

// The two endpoints for publishers: requests and the inbox.
func TestIngress(t *testing.T) {
	t.Parallel()
	s := up(t)
	s.agent("tool", `echo '{"of":"tool"}'`, "")
	s.agent("hang", `sleep 60`, "")
	s.worker()
	s.has(s.post("/agents", `{"name":"plain"}`), 201)
	nc := s.nats.Conn(t)
	answers, err := nc.SubscribeSync("answers.*")
	if err != nil {
		t.Fatal(err)
	}

	s.story("a micro service that everybody can find", func(s *stack) {
		var info micro.Info
		s.until("it answers", func() bool {
			m, err := nc.Request("$SRV.INFO.ao", nil, time.Second)
			return err == nil && json.Unmarshal(m.Data, &info) == nil
		})
		if info.Name != "ao" || len(info.Endpoints) != 4 {
			t.Errorf("%+v", info)
		}
		s.until("it answers a ping", func() bool {
			m, err := nc.Request("$SRV.PING", nil, time.Second)
			return err == nil && strings.Contains(string(m.Data), `"name":"ao"`)
		})
	})

	s.story("request and reply: the bodies and codes of HTTP", func(s *stack) {
		p := publisher{s, nc}
		const body = `{"agent_name":"tool","parameters":{"a":1}}`
		r := p.ask("ao.api.runs.create", body)
		id := r.at("run_id")
		s.is(r, 201, `{"run_id":"`+id+`","session_id":"`+r.at("session_id")+`","status":"pending"}`)
		done := s.ended(id)
		for _, ask := range []string{id, `"` + id + `"`, `{"run_id":"` + id + `"}`} {
			s.has(p.ask("ao.api.runs.get", ask), 200, strings.TrimSuffix(done.text, "}\n"),
				`"result":{"result_type":"procedural","result_text":null,"result_data":{"of":"tool"},"exit_code":0}`)
		}
		s.has(p.ask("ao.api.runs.create", `{"agent_name":"tool","mode":"sync"}`), 200, `"status":"completed"`,
			`"result_data":{"of":"tool"}`)
		waits := p.ask("ao.api.runs.create", `{"agent_name":"hang","mode":"sync","wait_seconds":0}`)
		s.has(waits, 202, `"status":"pending"`)
		s.has(p.ask("ao.api.runs.stop", waits.at("run_id")), 200)
		s.is(p.ask("ao.api.agents.list", ``), 200, strings.TrimSpace(s.get("/agents").text))
		s.is(p.ask("ao.api.agents.list", `{"status":"inactive"}`), 200, `{"agents":[]}`)

		hangs := p.ask("ao.api.runs.create", `{"agent_name":"hang"}`).at("run_id")
		s.status(hangs, "running")
		s.has(p.ask("ao.api.runs.stop", hangs), 200, `"status":"stop`)
		s.same("the run", s.ended(hangs).at("status"), "stopped")

		first := p.ask("ao.api.runs.create", body, "Idempotency-Key", "k")
		s.is(p.ask("ao.api.runs.create", body, "Nats-Msg-Id", "k"), 201, first.text)
		s.has(p.ask("ao.api.runs.create", `{"agent_name":"tool"}`, "Idempotency-Key", "k"), 409)

		for _, body := range []string{``, `x`, `[]`, `{}`, `{"agent_name":"nobody"}`, `{"agent_name":"plain"}`,
			`{"agent_name":"plain","prompt":"x","colour":1}`,
			`{"agent_name":"plain","prompt":"x","callback_url":"http://x"}`,
			`{"agent_name":"tool","agent_name":"tool"}`, `{"type":"resume_session","session_id":"ses_none"}`,
			`{"agent_name":"tool","parameters":5}`} {
			over := s.post("/runs", body)
			s.is(p.ask("ao.api.runs.create", body), over.code,
				folders.ReplaceAllString(strings.TrimSpace(over.text), ""))
		}
		for _, id := range []string{"run_*", "run_a.b", "ses_x", "", "run_>", `{"run_id":"run_ x"}`, `{"id":"run_1"}`} {
			s.has(p.ask("ao.api.runs.get", id), 400, `"error":"invalid_request"`)
			s.has(p.ask("ao.api.runs.stop", id), 400, `"error":"invalid_request"`)
		}
		s.has(p.ask("ao.api.runs.get", "run_none"), 404, `"error":"not_found"`)
	})

	s.story("an inbox that takes runs while no coordinator is up", func(s *stack) {
		p := publisher{s, nc}
		before := s.runs("")
		s.coordinator.stop()
		p.leave(`{"agent_name":"tool","parameters":{"left":1}}`, "Ao-Reply-To", "answers.good")
		p.leave(`{"agent_name":"tool","parameters":{"left":2}}`)
		for range 3 {
			p.leave(`{"agent_name":"tool","parameters":{"left":3}}`, "Idempotency-Key", "once")
		}
		p.leave(`{"agent_name":"plain"}`, "Ao-Reply-To", "answers.bad")
		p.leave(`no json`)
		p.leave(`{"session_id":"ses_none","prompt":"x"}`)
		p.leave(`{"agent_name":"tool","mode":"sync"}`)
		s.coordinator.start()
		s.ready()

		replies := map[string]*nats.Msg{}
		for range 2 {
			m, err := answers.NextMsg(20 * time.Second)
			if err != nil {
				t.Fatal(err)
			}
			replies[m.Subject] = m
		}
		good := reply{text: string(replies["answers.good"].Data)}
		s.same("its status", replies["answers.good"].Header.Get("status"), "201")
		s.has(s.ended(good.at("run_id")), 200, `"status":"completed"`, `"parameters":{"left":1}`)
		s.same("its status", replies["answers.bad"].Header.Get("status"), "400")
		s.contains(string(replies["answers.bad"].Data), `"error":"parameter_validation_failed"`,
			`'prompt' is a required property`)

		var rejected map[string]string
		s.until("four are rejected", func() bool { rejected = p.rejected(); return len(rejected) == 4 })
		for body, reason := range map[string]string{
			`{"agent_name":"plain"}`:                 "Parameters do not match agent's parameters_schema",
			`no json`:                                "The body is not JSON",
			`{"session_id":"ses_none","prompt":"x"}`: "There is no session",
			`{"agent_name":"tool","mode":"sync"}`:    "The inbox does not wait for results",
		} {
			s.contains(rejected[body], reason)
		}
		s.until("three runs came of it", func() bool { return s.runs("") == before+3 })
		s.until("they have ended", func() bool {
			return s.runs("status=completed&agent_name=tool") >= 3 &&
				s.runs("status=pending") == 0
		})
		s.coordinator.kill() // what was taken does not come again
		s.coordinator.start()
		s.ready()
		p.leave(`{"agent_name":"tool","parameters":{"left":4}}`, "Ao-Reply-To", "answers.good")
		if _, err := answers.NextMsg(20 * time.Second); err != nil {
			t.Fatal(err)
		}
		if n := s.runs(""); n != before+4 {
			t.Errorf("%d runs came of 4 messages", n-before)
		}
		js, _ := nc.JetStream()
		s.until("the inbox is empty", func() bool {
			info, err := js.StreamInfo(subject.Inbox)
			return err == nil && info.State.Msgs == 0
		})
	})
}

// folders are those of agents, which only admins see.
var folders = regexp.MustCompile(`,"folders":\[[^]]*\]`)
