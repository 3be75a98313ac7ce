package bus_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"

	"github.com/nats-io/nats.go/jetstream"
)

// TestRunsCanBeSplit: today's layout can be split into several streams without writing its records anew
// (shared/docs/scale.md, step 2). The upper half of the partitions is copied into a stream of its own, which takes over
// their subjects. Both streams still refuse a second message of a subject, alone and in batches.
func TestRunsCanBeSplit(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := natstest.Server(t)
	b, err := bus.Open(natstest.Conn(t, server), bus.Config{MaxBytes: 64 << 20, // there is room for two on any disk
		OnSetup: server.UpdateStaging})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Setup(ctx); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(natstest.Conn(t, server))
	if err != nil {
		t.Fatal(err)
	}
	entry := func(session, run string) bus.Entry {
		return bus.Entry{Subject: subject.Accepted(subject.Partition(session), session, run), Body: []byte(run)}
	}
	var all []bus.Entry
	for i := range 400 {
		all = append(all, entry(fmt.Sprintf("ses_%d", i), fmt.Sprintf("run_%d", i)))
	}
	if _, err := b.AppendBatch(ctx, all...); err != nil {
		t.Fatal(err)
	}

	// The coordinators are down. The new stream copies what will be its own.
	var lower, upper []string
	source := &jetstream.StreamSource{Name: subject.Runs} // one for all subjects keeps their order
	for p := range 64 {
		s := "ao.runs." + strconv.Itoa(p) + ".>"
		if p < 32 {
			lower = append(lower, s)
			continue
		}
		upper = append(upper, s)
	}
	for _, s := range upper {
		source.SubjectTransforms = append(source.SubjectTransforms,
			jetstream.SubjectTransformConfig{Source: s, Destination: s})
	}
	runs, err := js.Stream(ctx, subject.Runs)
	if err != nil {
		t.Fatal(err)
	}
	old := runs.CachedInfo().Config
	cfg := old
	cfg.Name, cfg.Subjects, cfg.Sources = "RUNS-1", nil, []*jetstream.StreamSource{source}
	second, err := js.CreateStream(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	var want uint64
	for i := range all {
		if p, _ := strconv.Atoi(subject.Partition(fmt.Sprintf("ses_%d", i))); p >= 32 {
			want++
		}
	}
	natstest.Until(t, "all is copied", func() bool {
		info, err := second.Info(ctx)
		return err == nil && info.State.Msgs == want
	})

	// The subjects change hands, and the copied ones go from the old stream.
	old.Subjects = lower
	if _, err := js.UpdateStream(ctx, old); err != nil {
		t.Fatal(err)
	}
	cfg.Subjects, cfg.Sources = upper, nil
	if _, err := js.UpdateStream(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	for _, s := range upper {
		if err := runs.Purge(ctx, jetstream.WithPurgeSubject(s)); err != nil {
			t.Fatal(err)
		}
	}
	info, err := runs.Info(ctx)
	if err != nil || info.State.Msgs != 400-want || want == 0 || want == 400 {
		t.Fatalf("%v: %d messages in the old stream, %d in the new one", err, info.State.Msgs, want)
	}

	// Every record is in exactly one of them, and both refuse a second one.
	var last uint64
	for _, e := range all {
		in := 0
		if m, err := second.GetLastMsgForSubject(ctx, e.Subject); err == nil {
			if m.Sequence <= last {
				t.Fatalf("%s has sequence %d in the new stream, after %d", e.Subject, m.Sequence, last)
			}
			last = m.Sequence
		}
		for _, s := range []jetstream.Stream{runs, second} {
			if m, err := s.GetLastMsgForSubject(ctx, e.Subject); err == nil && string(m.Data) == string(e.Body) {
				in++
			}
		}
		if in != 1 {
			t.Fatalf("%s is in %d streams", e.Subject, in)
		}
	}
	for i := range 400 {
		session := fmt.Sprintf("ses_%d", i)
		if _, err := b.Append(ctx, entry(session, fmt.Sprintf("run_%d", i))); !errors.Is(err, bus.ErrTaken) {
			t.Fatalf("a second message of %s: %v", all[i].Subject, err)
		}
	}
	for _, session := range []string{"ses_1", "ses_2", "ses_3", "ses_4", "ses_5"} { // in both halves
		if _, err := b.AppendBatch(ctx, entry(session, "run_a"), entry(session, "run_b")); err != nil {
			t.Fatalf("a batch of %s in partition %s: %v", session, subject.Partition(session), err)
		}
		if _, err := b.AppendBatch(ctx, entry(session, "run_c"), entry(session, "run_a")); !errors.Is(err,
			bus.ErrTaken) {
			t.Fatalf("a batch with a subject that is taken: %v", err)
		}
	}
}
