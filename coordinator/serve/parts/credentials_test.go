package parts

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ao/coordinator/audit"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/runnerapi"
)

// TestWorkersReadOnlyTheirOwnRecords: a worker that may not read a record gets it by the full subject with its key; no
// wildcards lead to another's.
func TestWorkersReadOnlyTheirOwnRecords(t *testing.T) {
	t.Parallel()
	server := natstest.Server(t)
	b := natstest.Open(t, server)
	if err := b.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	start(t, b, Config{})
	w, err := bus.Open(natstest.Conn(t, server), bus.Config{Confined: true, Log: natstest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	own := subject.Claimed("7", "run_a", "key_a")
	seq, err := b.Append(t.Context(), bus.Entry{Subject: own, Body: []byte(`{"v":1,"nonce":"n"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := w.Last(t.Context(), own); err != nil || m.Seq != seq || m.Subject != own ||
		string(m.Body) != `{"v":1,"nonce":"n"}` || m.Time.IsZero() {
		t.Errorf("own: %+v, %v", m, err)
	}
	if _, err := w.Last(t.Context(), subject.Ended("7", "run_a", "key_a")); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("missing: %v", err)
	}
	for _, subj := range []string{
		subject.Claimed("*", "*", "*"), subject.Claimed("7", "run_a", "*"), subject.Claimed("7", "*", "key_a"),
		subject.Claimed("*", "run_a", "key_a"), "ao.runs.7.claimed.>", "ao.runs.7.claimed.run_a.>",
		subject.Queued("7", "procedural._._", "run_a", 1), subject.Stopping("7", "run_a"), "ao.runs.>", ">", "",
		"$KV.secrets.attempts", "ao.events.7.ses.run.message",
	} {
		if m, err := w.Last(t.Context(), subj); err == nil || errors.Is(err, bus.ErrNotFound) ||
			fault.KindOf(err) == fault.Unavailable {
			t.Errorf("%s: %+v, %v", subj, m, err)
		}
	}
}

// TestRegistrationMustMatchItsSubject: permissions are on subjects, so the content of the message must match its
// subject.
func TestRegistrationMustMatchItsSubject(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	c := start(t, b, Config{})
	for _, tt := range []struct {
		subject    string
		credential string
		want       fault.Kind
	}{
		{subject.Register("procedural", "procedural"), "DOOR", 0},
		{subject.RunnerAPI(runnerapi.OpRegister), "", 0},
		{subject.Register("procedural", "other"), "", fault.Forbidden},
		{subject.Register("autonomous", "procedural"), "", fault.Forbidden},
		{subject.RunnerAPI(runnerapi.OpRegister) + ".procedural", "", fault.Forbidden},
		{subject.RunnerAPI(runnerapi.OpDeregister) + ".procedural.procedural", "", fault.NotFound},
		{subject.RunnerAPI(runnerapi.OpRegister), "a.b", fault.Invalid},
		{subject.RunnerAPI(runnerapi.OpRegister), "*", fault.Invalid},
	} {
		r := runner("i")
		r.CredentialID = tt.credential
		raw, err := json.Marshal(runnerapi.Registration{Runner: r})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Request(t.Context(), tt.subject, raw); tt.want == 0 && err != nil || tt.want != 0 &&
			fault.KindOf(err) != tt.want {
			t.Errorf("%s with credential %q: %v", tt.subject, tt.credential, err)
		}
		if tt.credential == "DOOR" && c.Registry.Credential(r.ID()) != tt.credential {
			t.Errorf("its credential is %q", c.Registry.Credential(r.ID()))
		}
	}
}

// TestRefusedWorkersAreRecorded: a worker that wants to be another profile, or reads what is not its own, leaves a line
// in the audit log.
func TestRefusedWorkersAreRecorded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	log, err := audit.Open(path, nil, natstest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	b := natstest.Bus(t)
	start(t, b, Config{Audit: log})
	r := runner("i")
	for _, ask := range []struct {
		subject string
		say     any
	}{
		{subject.Register("procedural", "other"), runnerapi.Registration{Runner: r}},
		{subject.RunnerAPI(subject.OpRecord), bus.RecordRequest{Subject: subject.Claimed("*", "*", "*")}},
		{subject.RunnerAPI(runnerapi.OpPutPart), runnerapi.PartRequest{RunID: "run_a", Attempt: 1, Key: "guess"}},
	} {
		raw, err := json.Marshal(ask.say)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Request(t.Context(), ask.subject, raw); fault.KindOf(err) != fault.Forbidden {
			t.Errorf("%s: %v", ask.subject, err)
		}
	}
	log.Close()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"action":"runner.register","runner_id":"` + r.ID() + `","status":403,"error":"forbidden"`,
		`"actor":{"kind":"nats"},"action":"read","status":403,"error":"forbidden"`,
		`"actor":{"kind":"nats"},"action":"request","status":403,"error":"forbidden"`,
	} {
		if strings.Count(string(raw), want) != 1 {
			t.Errorf("not one line with %s:\n%s", want, raw)
		}
	}
}
