package main

import (
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The plain work queue: publish with ack; a pull consumer delivers, the job runs, the message is acked. It has no job
// states and no results: the minimum of a job queue on JetStream.

const queue = "QUEUE"

func launchJetstream(ctx context.Context, b *bench, p plan) (*system, error) {
	return launchSystem(ctx, b, p, func(s *system) (err error) {
		defer caught(&err)
		at := must(b.nats(ctx, s, p))
		url := at.nats
		nc := must(nats.Connect(url))
		s.closes = append(s.closes, nc.Close)
		js := must(jetstream.New(nc))
		q := must(js.CreateStream(ctx, jetstream.StreamConfig{Name: queue, Subjects: []string{"queue.>"},
			Retention: jetstream.WorkQueuePolicy}))
		wait := 30 * time.Second // the default
		for _, v := range p.env {
			if text, ok := strings.CutPrefix(v, "AO_PEERS_ACK_WAIT="); ok {
				wait = must(time.ParseDuration(text))
			}
		}
		must(q.CreateConsumer(ctx, jetstream.ConsumerConfig{
			Durable: "work", AckPolicy: jetstream.AckExplicitPolicy, AckWait: wait, MaxAckPending: 16384}))
		s.accept = func(ctx context.Context, job []byte) error {
			_, err := js.Publish(ctx, "queue.noop", job)
			return err
		}
		s.empty = func(ctx context.Context) (bool, error) {
			info, err := q.Info(ctx)
			return err == nil && info.State.Msgs == 0, err
		}
		s.worker = func(name string, env ...string) (*proc, error) {
			return s.startRole("jetstream-worker", name, append(append(env, p.env...), "AO_PEERS_SERVER="+
				url, "AO_PEERS_SLOTS="+strconv.Itoa(max(p.slots/max(p.workers, 1), 1)))...)
		}
		return nil
	})
}

func jetstreamWorker(ctx context.Context) (err error) {
	defer caught(&err)
	nc := must(nats.Connect(os.Getenv("AO_PEERS_SERVER")))
	defer nc.Close()
	js := must(jetstream.New(nc))
	c := must(js.Consumer(ctx, queue, "work"))
	slots := must(strconv.Atoi(os.Getenv("AO_PEERS_SLOTS")))
	free := make(chan struct{}, slots)
	r := newReport()
	beat, _ := time.ParseDuration(os.Getenv("AO_PEERS_BEAT")) // interval of progress messages; 0: none
	consume := must(c.Consume(func(m jetstream.Msg) {
		free <- struct{}{}
		go func() {
			defer func() { <-free }()
			over := make(chan struct{})
			if beat > 0 {
				go func() {
					for {
						select {
						case <-over:
							return
						case <-time.After(beat):
							m.InProgress()
						}
					}
				}()
			}
			err := r.work(ctx, m.Data())
			close(over)
			if err == nil {
				m.Ack()
			}
		}()
	}, jetstream.PullMaxMessages(slots)))
	defer consume.Stop()
	r.ready()
	<-ctx.Done()
	return nil
}
