package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"ao/coordinator/projection"
	"ao/coordinator/projection/follow"
	"ao/coordinator/projection/query"
	"ao/nats/bus"
	"ao/nats/embed"
	"ao/nats/subject"
	"ao/scripts/try"
	"ao/shared/run"

	"golang.org/x/sync/errgroup"
)

// replay measures a start with a long history: read from its beginning, and from a checkpoint.
func (b bench) replay(ctx context.Context, fsync string) {
	dir := try.Must(os.MkdirTemp("", "ao-bench-"))
	defer os.RemoveAll(dir)
	server := try.Must(embed.Start(embed.Config{StoreDir: filepath.Join(dir, "nats"), Listen: "none", Sync: fsync,
		Log: warnLogger()}))
	defer server.Close()
	nc := try.Must(server.Dial(bus.Options("bench", warnLogger())...))
	defer nc.Close()
	records := try.Must(bus.Open(nc, bus.Config{Log: warnLogger()}))
	try.Check(records.Setup(ctx))
	start := time.Now()
	writeHistory(ctx, records, b.history)
	state := try.Must(records.State(ctx))
	fmt.Printf("history of %d runs: %d records, %.0f MiB, written in %.1f s\n", b.history, state.Msgs,
		float64(state.Bytes)/(1<<20), time.Since(start).Seconds())

	before := heap()
	whole := caughtUp(ctx, records, filepath.Join(dir, "projection"))
	applied := whole.Stats().Applied
	fmt.Printf("read from the beginning: ready after %.2f s (%.0f records/s), %d applied, %d bytes of heap for a run\n",
		whole.took.Seconds(), float64(applied)/whole.took.Seconds(), applied, (heap()-before)/int64(b.history))
	var slowest time.Duration // from append to projection, while the checkpoint is written
	for start = time.Now(); whole.LastSnapshot().Seq == 0 && time.Since(start) < time.Minute; {
		at := time.Now()
		try.Check(whole.Await(ctx, try.Must(records.AppendBatch(ctx, endedRuns(1)...))))
		slowest = max(slowest, time.Since(at))
	}
	s := whole.LastSnapshot()
	fmt.Printf("checkpoint: %.1f MiB (%d bytes a run) in %.2f s, projection locked for at most %s, slowest append and "+
		"read meanwhile %s\n",
		float64(s.Bytes)/(1<<20), s.Bytes/int64(b.history), s.Took.Seconds(), s.Longest.Round(10*time.Microsecond),
		slowest.Round(10*time.Microsecond))
	start = time.Now()
	whole.end()
	fmt.Printf("clean end, with a last checkpoint: %.2f s\n", time.Since(start).Seconds())
	runtime.GC()
	again := caughtUp(ctx, records, filepath.Join(dir, "projection"))
	defer again.end()
	_, _, kept := again.Counts()
	fmt.Printf("start from the checkpoint: ready after %.2f s, %d records applied, %d ended runs known\n",
		again.took.Seconds(), again.Stats().Applied, kept)
}

// follower is a projection that has caught up.
type follower struct {
	*projection.Projection
	*query.Index
	*query.ActiveRuns
	*follow.Follower
	took time.Duration
	end  func()
}

func caughtUp(ctx context.Context, b *bus.Bus, dir string) *follower {
	ctx, cancel := context.WithCancel(ctx)
	p := projection.New(projection.Config{Log: warnLogger()})
	w := follow.New(p, b, dir, warnLogger())
	q := query.New(p, b, w, nil)
	f := &follower{Projection: p, Index: q.Index, ActiveRuns: q.ActiveRuns, Follower: w}
	over := make(chan struct{})
	start := time.Now()
	go func() { defer close(over); f.Run(ctx) }()
	f.end = func() { cancel(); <-over }
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for f.Ready() != nil {
		select {
		case <-ctx.Done():
			f.end()
			try.Check(ctx.Err())
		case <-tick.C:
		}
	}
	f.took = time.Since(start)
	return f
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// writeHistory writes a history of ended runs, about 333 runs per write.
func writeHistory(ctx context.Context, b *bus.Bus, runs int) {
	const write = 333
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for left := runs; left > 0; left -= write {
		g.Go(func() error {
			_, err := b.AppendBatch(ctx, endedRuns(min(left, write))...)
			return err
		})
	}
	try.Check(g.Wait())
}

// endedRuns returns the records of completed runs, each with its own session.
func endedRuns(runs int) (all []bus.Entry) {
	now := time.Now().UTC()
	key := strings.Repeat("0", 32) // of all attempts: the projection knows no deployment's secret
	parameters := json.RawMessage(`{"text":"` + strings.Repeat("x", 200) + `"}`)
	for range runs {
		spec := run.Spec{
			ID: run.NewID(), Type: run.Start, SessionID: run.NewSessionID(), Agent: "noop", AgentType: run.Procedural,
			Mode: run.AsyncPoll, Timeout: 300, TimeoutBy: "default",
			CreatedAt: now, Input: &run.Input{
				Parameters: parameters,
				Blueprint: json.RawMessage(
					`{"name":"noop","type":"procedural","command":"./noop","status":"active"}`)},
		}
		part := subject.Partition(spec.SessionID)
		queued, _ := run.Queued{V: run.Version, Attempt: 1, Key: key, Spec: spec}.Encode()
		claimed, _ := json.Marshal(run.Claim{V: run.Version, SessionID: spec.SessionID,
			RunnerID: "rnr_0123456789abcdef01234567", Instance: key, Nonce: key, Attempt: 1, At: now})
		word, _ := json.Marshal(run.Ended{
			V: run.Version, SessionID: spec.SessionID, RunnerID: "rnr_0123456789abcdef01234567", Nonce: key, Attempt: 1,
			Status: run.Completed, StartedAt: &now, At: now,
			Result: &run.Result{Type: run.Procedural, Data: json.RawMessage(`{"return_code":0,"stdout":"` +
				strings.Repeat("y", 60) + `","stderr":""}`)},
		})
		all = append(all, bus.Entry{Subject: subject.Queued(part, subject.TaskQueue("procedural", "_", "_"), spec.ID,
			1), Body: queued},
			bus.Entry{Subject: subject.Claimed(part, spec.ID, key), Body: claimed},
			bus.Entry{Subject: subject.Ended(part, spec.ID, key), Body: word})
	}
	return all
}
