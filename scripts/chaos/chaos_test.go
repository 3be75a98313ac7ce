package main

import (
	"encoding/binary"
	"flag"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"ao/nats/natstest"
)

var (
	chaosFor  = flag.Duration("chaos.for", 20*time.Second, "duration of TestFaults; 0 skips it")
	chaosNATS = flag.Int("chaos.nats", 1, "NATS servers of TestFaults: 1 or 3")
	chaosTorn = flag.Duration("chaos.torn", 30*time.Second, "duration of TestTorn, 30s for each crash; 0 skips it")
	chaosSeed = flag.Uint64("chaos.seed", 0, "seed of both; 0: a random one")
)

// run runs chaos in a test, with its output in the test's log.
func run(t *testing.T, mode string, length time.Duration, servers int) report {
	t.Helper()
	if testing.Short() || length == 0 {
		t.Skip("skipped by -short, or by a duration of 0")
	}
	o := options{seed: *chaosSeed, length: length, nats: servers, mode: mode, race: raceEnabled,
		fsync: "2m", level: "info", out: t.Output()}
	r, err := o.run(t.Context())
	for _, wrong := range r.Wrong {
		t.Error(wrong)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestTorn runs mode torn.
func TestTorn(t *testing.T) {
	r := run(t, "torn", *chaosTorn, 1)
	for _, tear := range r.Torn {
		if tear.Records <= 0 {
			t.Errorf("no whole record was cut off: %s", tear)
		}
	}
}

// TestModes is a short run of each other mode. Nightly runs have more seeds.
func TestModes(t *testing.T) {
	if natstest.Load(0, 1) == 0 {
		t.Skip("runs where AO_TEST_LOAD is full")
	}
	for _, mode := range []string{"disk", "proxy"} {
		t.Run(mode, func(t *testing.T) {
			if r := run(t, mode, *chaosFor, 1); len(r.Faults) == 0 {
				t.Error("there were no faults")
			}
		})
	}
	t.Run("rot", func(t *testing.T) { run(t, "rot", *chaosFor, 3) })
}

// TestProxy: each fault of the network, and its end.
func TestProxy(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go io.Copy(c, c)
		}
	}()
	p, err := newProxy(echo.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	answers := func(c net.Conn, within time.Duration) bool {
		c.SetDeadline(time.Now().Add(within))
		_, err := c.Write([]byte("x"))
		if err == nil {
			_, err = io.ReadFull(c, make([]byte, 1))
		}
		return err == nil
	}
	dial := func() net.Conn {
		c, err := net.Dial("tcp", p.address())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	for fault, stays := range map[string]bool{cut: false, blackHole: true, oneWay: true, slow: true} {
		c := dial()
		if !answers(c, time.Minute) {
			t.Fatalf("before %s: no answer", fault)
		}
		p.set(fault)
		if got := answers(c, 200*time.Millisecond); got != (fault == slow) {
			t.Errorf("during %s: answered %v", fault, got)
		}
		p.set("")
		if fault == slow {
			continue
		}
		c.SetDeadline(time.Now().Add(time.Minute))
		if _, err := c.Read(make([]byte, 1)); (err == nil) != stays {
			t.Errorf("after %s: %v", fault, err)
		}
	}
}

// TestFaults is a short run in mode faults.
func TestFaults(t *testing.T) {
	r := run(t, "faults", *chaosFor, *chaosNATS)
	if len(r.Faults) == 0 || r.Runs["completed"] < 20 || r.Children == 0 {
		t.Errorf("got faults %v, runs %v, %d children; want some faults, 20 completed runs and a child", r.Faults,
			r.Runs, r.Children)
	}
}

// TestVerifierFindsViolations checks that forged violations are found.
func TestVerifierFindsViolations(t *testing.T) {
	attempt := func(n int) *trackedRun { return &trackedRun{run: "run_1", kind: "quick", attempts: n} }
	failed := func(code string, attempt int) runView {
		v := runView{ID: "run_1", Status: "failed", Attempt: attempt}
		v.Error = &struct {
			Code    string `json:"error"`
			Message string `json:"message"`
		}{code, "why"}
		return v
	}
	for _, tt := range []struct {
		say string
		e   *trackedRun
		v   runView
		odd bool
	}{
		{"completed", attempt(1), runView{Status: "completed", Attempt: 1}, false},
		{"still running", attempt(1), runView{Status: "running", Attempt: 1}, true},
		{"stopped by nobody", attempt(1), runView{Status: "stopped", Attempt: 1}, true},
		{"stopped as asked", &trackedRun{kind: "hang", attempts: 1, stop: true}, runView{Status: "stopped", Attempt: 1},
			false},
		{"lost with its worker", attempt(1), failed("runner_disconnected", 1), false},
		{"lost although an attempt was left", attempt(2), failed("runner_disconnected", 1), true},
		{"an attempt too many", attempt(1), runView{Status: "completed", Attempt: 2}, true},
		{"an error of its kind", &trackedRun{kind: "fails", attempts: 1}, failed("command_failed", 1), false},
		{"an error that no run of its kind has", attempt(1), failed("command_failed", 1), true},
		{"a turn whose session never began", &trackedRun{kind: "talk", attempts: 1, turn: 1},
			failed("session_never_began", 1), true},
		{"a hanging one that completed", &trackedRun{kind: "hang", attempts: 1, stop: true},
			runView{Status: "completed", Attempt: 1}, true},
	} {
		if why := unexpectedEnd(tt.e, tt.v); (why != "") != tt.odd {
			t.Errorf("%s: got %q, want a violation: %t", tt.say, why, tt.odd)
		}
	}
	b := &tracker{}
	e := attempt(1)
	b.observe(e, "completed", "a")
	b.observe(e, "running", "b")
	if len(b.wrong) != 0 || b.stale != 1 {
		t.Errorf("a late read: got %v, want no violation", b.wrong)
	}
	if b.observe(e, "failed", "b"); len(b.wrong) != 1 {
		t.Error("an end that changed was not found")
	}
}

// TestGaps: a violation is expected only in a session with records cut off; some are never expected.
func TestGaps(t *testing.T) {
	j := &verifier{
		b:    &tracker{entries: []*trackedRun{{run: "run_3", session: "ses_cut"}}},
		runs: map[string]runView{"run_1": {Session: "ses_cut"}, "run_2": {Session: "ses_whole"}},
		torn: map[string]bool{"ses_cut": true, "run_4": true},
	}
	for _, tt := range []struct {
		ledgerViolation
		want bool
	}{
		{ledgerViolation{Kind: "two_at_once", Run: "run_1"}, true},
		{ledgerViolation{Kind: "two_at_once", Run: "run_2"}, false},
		{ledgerViolation{Kind: "unknown_run", Run: "run_3"}, true}, // only its client knows it
		{ledgerViolation{Kind: "unknown_run", Run: "run_4"}, true},
		{ledgerViolation{Kind: "unknown_run", Run: "run_5"}, false},
		{ledgerViolation{Kind: "begun_twice", Run: "run_1"}, true},
		{ledgerViolation{Kind: "unreadable_record", Run: "run_1"}, false},
		{ledgerViolation{Kind: "callback_twice", Run: "run_2"}, false},
		{ledgerViolation{Kind: "sum"}, true},
	} {
		if got := j.isExpectedGap(tt.ledgerViolation); got != tt.want {
			t.Errorf("%+v: %t", tt.ledgerViolation, got)
		}
	}
}

// TestWholeRecords: a record with the cut inside it is lost.
func TestWholeRecords(t *testing.T) {
	var raw []byte
	for i, n := range []uint32{40, 22, 100} {
		length := n
		if i == 2 {
			length |= 1 << 31 // it has headers
		}
		raw = append(binary.LittleEndian.AppendUint32(raw, length), make([]byte, n-4)...)
	}
	for _, tt := range []struct {
		within, end int64
		records     int
	}{{0, 0, 0}, {39, 0, 0}, {40, 40, 1}, {61, 40, 1}, {62, 62, 2}, {161, 62, 2}, {162, 162, 3}} {
		if end, records := wholeRecords(raw, tt.within); end != tt.end || records != tt.records {
			t.Errorf("within %d: %d records up to %d, want %d up to %d", tt.within, records, end, tt.records, tt.end)
		}
	}
	if end, records := wholeRecords(make([]byte, 100), 50); end != 0 || records != 0 {
		t.Errorf("of no records: %d up to %d", records, end)
	}
}

// TestSeams: a seam lies between two records of one batch, not before or after the batch.
func TestSeams(t *testing.T) {
	var raw []byte
	var at []int64
	for _, id := range []string{"", "a", "a", "a", "b", "", "c", "c"} {
		at = append(at, int64(len(raw)))
		body := make([]byte, 30)
		if id != "" {
			body = append(body, "NATS/1.0\r\nNats-Batch-Id: "+id+"\r\nNats-Batch-Sequence: 1\r\n\r\n"...)
		}
		binary.LittleEndian.PutUint32(body, uint32(len(body))|1<<31)
		raw = append(raw, body...)
	}
	for from, want := range map[int64][]int64{0: {at[2], at[3], at[7]}, at[3]: {at[3], at[7]}, at[3] + 1: {at[7]}} {
		if got := batchSeams(raw, from); !slices.Equal(got, want) {
			t.Errorf("from %d: %v, want %v", from, got, want)
		}
	}
}
