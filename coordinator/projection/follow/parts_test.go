package follow

import (
	"context"
	"encoding/json"
	"math"
	"sync"
	"testing"

	"ao/coordinator/projection"
	"ao/coordinator/projection/query"
	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/shared/run"
)

// allParts is all parts in one, for tests that use many.
type allParts struct {
	*projection.Projection
	*query.Index
	*query.ActiveRuns
	*query.Worklist
	*query.Reader
	*query.Lists
	*query.Feed
	*Follower
}

func joined(b *bus.Bus, cfg projection.Config) *allParts { return joinedIn("", b, cfg) }

// joinedIn keeps checkpoints in a folder.
func joinedIn(dir string, b *bus.Bus, cfg projection.Config) *allParts {
	p := projection.New(cfg)
	w := New(p, b, dir, cfg.Log)
	q := query.New(p, b, w, cfg.Key)
	return &allParts{p, q.Index, q.ActiveRuns, q.Worklist, q.Reader, q.Lists, q.Feed, w}
}

// bench is a projection on a real server.
type bench struct {
	*allParts
	t    testing.TB
	bus  *bus.Bus
	emit *bus.Emitter
}

func start(t testing.TB, cfg projection.Config) *bench {
	t.Helper()
	b := natstest.Bus(t)
	return &bench{another(t, b, cfg), t, b, b.Emitter(context.Background(), nil)}
}

// another is one more projection on the same server.
func another(t testing.TB, b *bus.Bus, cfg projection.Config) *allParts {
	t.Helper()
	cfg.Log = natstest.Log(t)
	j := joined(b, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { j.Run(ctx) })
	t.Cleanup(wg.Wait)
	t.Cleanup(cancel)
	natstest.Until(t, "the projection is ready", func() bool { return j.Ready() == nil })
	return j
}

// Write appends records and gives the last one's sequence.
func (b *bench) write(records ...entry) (seq uint64) {
	b.t.Helper()
	for _, e := range records {
		var err error
		seq, err = b.bus.Append(b.t.Context(), e)
		if err != nil {
			b.t.Fatal(e.Subject, err)
		}
	}
	return seq
}

func (b *bench) actor(session string) actor {
	return newActor(b.t, run.NewID(), session, "x")
}

// seen is what the index says about each run and session.
func seen(t testing.TB, f *state.State) string {
	t.Helper()
	var all []any
	for _, r := range state.RunsBelow(f, math.MaxUint64) {
		if !r.Evicted {
			v := state.ViewOf(f, r)
			all = append(all, v.Run(), v.Active)
		}
	}
	for _, s := range state.SessionsBelow(f, math.MaxUint64) {
		all = append(all, state.SessionOf(f, s))
	}
	raw, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func (j *allParts) seen(t testing.TB) string {
	t.Helper()
	return projection.Read(j.Projection, func(f *state.State) string { return seen(t, f) })
}
