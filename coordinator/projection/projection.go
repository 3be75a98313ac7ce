// Package projection is the read model: it applies the RUNS stream to runs, sessions and queues, and answers queries
// and waits. Nothing in it can be lost: every coordinator builds the same one from the same records.
package projection

import (
	"cmp"
	"context"
	"log/slog"

	"ao/shared/run"
)

// Config configures the read model. Its zero value works.
type Config struct {
	Log *slog.Logger // default slog.Default()
	// called for every record that changed something, in stream order; must not block
	OnChange func(Change)
	// called when work is due, once the history is loaded; must not block
	OnEffect func(Effect)
	// called for every step of a run, once the history is loaded, in order; must not block
	OnStep func(Step)
	// attempt keys; nil: any key may end a run that was never queued
	Key func(run string, attempt int) string
	// reports whether mark is a coordinator's signature of a checked result; nil: no run with an output schema
	// completes
	ValidChecked func(run string, attempt int, mark string) bool
	// newest readable version of records, default run.Version
	Version int
	// bytes of cached records, default 8 MiB; negative: none
	Cache int
	// folder of checkpoints; empty: every start reads the whole history
	Dir string
}

// Parts is the read model: parts that share one Projection, each for one subject. Callers hold the part they need, or
// an interface of their own. All methods may be called concurrently.
type Parts struct {
	Projection *Projection // waits for records and ends
	Index      *Index
	Payloads   *Payloads
	ActiveRuns *ActiveRuns
	Worklist   *Worklist
	Overlay    *Overlay
	Reader     *Reader
	Lists      *Lists
	Feed       *Feed
	Follower   *Follower // its Run makes all of them work
}

// New returns the parts. The Follower's Run makes them work.
func New(records interface {
	Log
	Source
}, cfg Config) Parts {
	log := cmp.Or(cfg.Log, slog.Default())
	p := &Projection{
		log: log, onChange: cfg.OnChange, onEffect: cfg.OnEffect, onStep: cfg.OnStep,
		bodies: newBodies(cmp.Or(cfg.Cache, 8<<20)), reducer: newReducer(cfg.Key),
		waiters: map[ident]chan struct{}{}, liveChanges: liveChanges{more: make(chan struct{})},
	}
	p.reducer.checked, p.reducer.version = cfg.ValidChecked, cmp.Or(cfg.Version, run.Version)
	w := &Follower{
		source: records, log: log, p: p, truncationCheck: truncationCheck, reread: make(chan struct{}, 1),
		checkpoints: checkpointStore{p: p, source: records, log: log, dir: cfg.Dir},
	}
	reader := &Reader{p: p, records: records, fresh: w}
	lists := &Lists{p: p, fresh: w, reader: reader, stride: stride, searchTime: searchTime}
	return Parts{
		Projection: p, Index: &Index{p}, Payloads: &Payloads{p},
		ActiveRuns: &ActiveRuns{p}, Worklist: &Worklist{p}, Overlay: &Overlay{p},
		Reader: reader, Lists: lists,
		Feed: &Feed{p: p, records: records, fresh: w, reader: reader, lists: lists, key: cfg.Key}, Follower: w,
	}
}

// Wait waits until a run has ended. If ctx ends first, it returns the run as it is and ctx's error.
func (x *Reader) Wait(ctx context.Context, id string) (run.Run, error) {
	if _, err := x.row(ctx, id); err != nil {
		return run.Run{}, err
	}
	if err := x.p.Done(ctx, id); err != nil {
		r, gone := x.Get(context.WithoutCancel(ctx), id)
		return r, cmp.Or(gone, err)
	}
	return x.Get(ctx, id)
}
