package main

import (
	"context"
	"encoding/json"
	"os"
	"strconv"
	"time"

	"github.com/choria-io/asyncjobs"
	"github.com/nats-io/nats.go"
)

// asyncjobs stores each task in a stream by its id, beside a work queue of ids, and rewrites the task at its start
// and end. Its worker fetches one job after the other.

// asyncjobsQueue returns its default queue, except for concurrency (100) and maximum run time (a minute).
func asyncjobsQueue(slots int, most time.Duration) *asyncjobs.Queue {
	return &asyncjobs.Queue{Name: "DEFAULT", MaxRunTime: most, MaxTries: 100, MaxConcurrent: slots}
}

func launchAsyncjobs(most time.Duration) func(context.Context, *bench, plan) (*system, error) {
	return func(ctx context.Context, b *bench, p plan) (*system, error) {
		return launchSystem(ctx, b, p, func(s *system) (err error) {
			defer caught(&err)
			at := must(b.nats(ctx, s, p))
			nc := must(nats.Connect(at.nats, nats.UseOldRequestStyle())) // asyncjobs requires it
			s.closes = append(s.closes, nc.Close)
			client := must(asyncjobs.NewClient(asyncjobs.NatsConn(nc),
				asyncjobs.WorkQueue(asyncjobsQueue(p.slots, most))))
			s.accept = func(ctx context.Context, job []byte) error {
				task, err := asyncjobs.NewTask("noop", job)
				if err != nil {
					return err
				}
				return client.EnqueueTask(ctx, task)
			}
			s.empty = func(context.Context) (bool, error) {
				q, err := client.StorageAdmin().QueueInfo("DEFAULT")
				return err == nil && q.Stream.State.Msgs == 0, err
			}
			s.worker = func(name string, env ...string) (*proc, error) {
				return s.startRole("asyncjobs-worker", name, append(env, "AO_PEERS_SERVER="+at.nats, "AO_PEERS_MOST="+
					most.String(),
					"AO_PEERS_QUEUE="+strconv.Itoa(p.slots), "AO_PEERS_SLOTS="+
						strconv.Itoa(max(p.slots/max(p.workers, 1), 1)))...)
			}
			return nil
		})
	}
}

func asyncjobsWorker(ctx context.Context) (err error) {
	defer caught(&err)
	slots := must(strconv.Atoi(os.Getenv("AO_PEERS_SLOTS")))
	all := must(strconv.Atoi(os.Getenv("AO_PEERS_QUEUE")))
	most := must(time.ParseDuration(os.Getenv("AO_PEERS_MOST")))
	nc := must(nats.Connect(os.Getenv("AO_PEERS_SERVER"), nats.UseOldRequestStyle()))
	defer nc.Close()
	client := must(asyncjobs.NewClient(asyncjobs.NatsConn(nc), asyncjobs.WorkQueue(asyncjobsQueue(all, most)),
		asyncjobs.ClientConcurrency(slots)))
	r := newReport()
	router := asyncjobs.NewTaskRouter()
	check(router.HandleFunc("noop", func(ctx context.Context, _ asyncjobs.Logger, t *asyncjobs.Task) (any, error) {
		var job []byte
		if err := json.Unmarshal(t.Payload, &job); err != nil {
			return nil, err
		}
		return nil, r.work(ctx, job)
	}))
	r.ready()
	return client.Run(ctx, router)
}
