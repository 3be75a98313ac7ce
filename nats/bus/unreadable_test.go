package bus_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
)

// setUp returns a Bus on a server process, with its streams.
func setUp(t *testing.T, p *natstest.Process) *bus.Bus {
	t.Helper()
	b, err := bus.Open(p.Conn(t), bus.Config{Log: natstest.Log(t)})
	if err == nil {
		err = b.Setup(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// rot ends a server cleanly, flips a bit in a record and starts the server again.
func rot(t *testing.T, p *natstest.Process, b *bus.Bus, stream, subj string) {
	t.Helper()
	p.Stop()
	p.FlipRecord(stream, subj)
	p.Start()
	natstest.Until(t, "the client is connected again", b.Connected)
}

// TestAppendBehindAnUnreadableRecord: a single server refuses the record, and has none to give. Nobody waits for one.
func TestAppendBehindAnUnreadableRecord(t *testing.T) {
	t.Parallel()
	p := natstest.Proc(t)
	b := setUp(t, p)
	e := bus.Entry{Subject: ended(1), Body: []byte("somebody else's record")}
	if _, err := b.Append(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	rot(t, p, b, subject.Runs, e.Subject)
	own := func([]byte) bool { return true }
	if _, err := b.AppendAndVerify(t.Context(), e, own); !errors.Is(err, bus.ErrTaken) {
		t.Errorf("the append ended with %v, want %v", err, bus.ErrTaken)
	}
}

// TestAListWithoutAnUnreadableKey: the other keys are listed, with their values. The lost one can be stored again,
// which NATS alone answers by no longer writing. Nothing of that is undone by restarts.
func TestAListWithoutAnUnreadableKey(t *testing.T) {
	t.Parallel()
	p := natstest.Proc(t)
	b := setUp(t, p)
	k := b.Bucket(subject.Agents)
	put := func(key, value string) {
		t.Helper()
		if _, err := k.Put(t.Context(), key, []byte(value)); err != nil {
			t.Error(err)
		}
	}
	list := func(want string) {
		t.Helper()
		all, err := k.List(t.Context())
		var got []string
		for key, v := range all {
			got = append(got, key+"="+string(v.Body))
		}
		slices.Sort(got)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("the list is %s, %v; want %s", got, err, want)
		}
	}
	put("a", "1")
	put("b", "2")
	put("c", "3")
	put("d", "4")
	if err := k.Delete(t.Context(), "d"); err != nil {
		t.Fatal(err)
	}
	rot(t, p, b, "KV_agents", "$KV.agents.b")
	list("a=1 c=3")
	if lost := fmt.Sprint(b.LostKeys()); lost != "map[agents:[b]]" {
		t.Errorf("lost are %s", lost)
	}
	put("b", "5")
	put("b", "6")
	list("a=1 b=6 c=3")
	for _, end := range []func(){p.Stop, p.Kill} {
		end()
		p.Start()
		natstest.Until(t, "the client is connected again", b.Connected)
		list("a=1 b=6 c=3")
	}
	if err := b.Setup(t.Context()); err != nil {
		t.Error(err)
	}
}
