// Package projection is the read model: it folds the RUNS stream into runs, sessions and queues, and answers queries
// and waits. It keeps nothing that could be lost; every coordinator has its own, and all of them say the same.
package projection

import (
	"cmp"
	"context"
	"log/slog"

	"ao/shared/run"
)

// Config is how the read model behaves; its zero value works.
type Config struct {
	Log *slog.Logger // default slog.Default()
	// hears of every record that changed something, in the order of the stream; must not block
	OnChange func(Change)
	// hears of what there is to do since all is read that history held; must not block
	OnEffect func(Effect)
	// hears of every step that a run goes from then on, in that order; must not block
	OnStep func(Step)
	// the attempts' keys: without it any key may end a run that was never queued
	Key func(run string, attempt int) string
	// whether the mark is a coordinator's that checked the result of an attempt; without it no run with an output
	// schema completes
	Checked func(run string, attempt int, mark string) bool
	// the newest version of records that is read, default run.Version
	Version int
	// bytes of records of runs that ended last, default 8 MiB; negative: none
	Cache int
	// folder of snapshots of the fold; none: every start reads the whole history
	Dir string
}

// Parts is the read model: all share one projection, and each answers about one subject. Whoever needs one holds that
// alone, or asks by an interface of its own. Their methods may be called from many goroutines.
type Parts struct {
	Projection *Projection // who waits for a record or an end
	Index      *Index
	ActiveRuns *ActiveRuns
	Worklist   *Worklist
	Overlay    *Overlay
	Reader     *Reader
	Lists      *Lists
	Feed       *Feed
	Follower   *Follower // its Run makes all of them work
}

// New makes the parts; the Follower's Run makes them work.
func New(records interface {
	Log
	Source
}, cfg Config) Parts {
	log := cmp.Or(cfg.Log, slog.Default())
	p := &Projection{
		log: log, tell: cfg.OnChange, tellDue: cfg.OnEffect, measure: cfg.OnStep,
		bodies: newBodies(cmp.Or(cfg.Cache, 8<<20)), fold: newFold(cfg.Key),
		waiters: map[ident]chan struct{}{}, starts: starts{more: make(chan struct{})},
	}
	p.fold.checked, p.fold.version = cfg.Checked, cmp.Or(cfg.Version, run.Version)
	w := &Follower{source: records, log: log, p: p, lookEvery: lookEvery, shelf: shelf{p: p, source: records, log: log,
		dir: cfg.Dir}}
	reader := &Reader{p: p, records: records, fresh: w}
	lists := &Lists{p: p, fresh: w, reader: reader, stride: stride, most: searchTime}
	return Parts{
		Projection: p, Index: &Index{p}, ActiveRuns: &ActiveRuns{p}, Worklist: &Worklist{p}, Overlay: &Overlay{p},
		Reader: reader, Lists: lists,
		Feed: &Feed{p: p, records: records, fresh: w, reader: reader, lists: lists, key: cfg.Key}, Follower: w,
	}
}

// Wait waits until a run has ended. When ctx ends before, the run comes as it is, with ctx's error.
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
