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
	return launchSystem(ctx, b, p, func(s *system) error {
		at, err := b.nats(ctx, s, p)
		if err != nil {
			return err
		}
		url := at.nats
		nc, err := nats.Connect(url)
		if err != nil {
			return err
		}
		s.closes = append(s.closes, nc.Close)
		js, err := jetstream.New(nc)
		if err != nil {
			return err
		}
		q, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: queue, Subjects: []string{"queue.>"},
			Retention: jetstream.WorkQueuePolicy})
		if err != nil {
			return err
		}
		wait := 30 * time.Second // the default
		for _, v := range p.env {
			if text, ok := strings.CutPrefix(v, "AO_PEERS_ACK_WAIT="); ok {
				wait, err = time.ParseDuration(text)
				if err != nil {
					return err
				}
			}
		}
		if _, err := q.CreateConsumer(ctx, jetstream.ConsumerConfig{
			Durable: "work", AckPolicy: jetstream.AckExplicitPolicy, AckWait: wait, MaxAckPending: 16384}); err != nil {
			return err
		}
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

func jetstreamWorker(ctx context.Context) error {
	nc, err := nats.Connect(os.Getenv("AO_PEERS_SERVER"))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	c, err := js.Consumer(ctx, queue, "work")
	if err != nil {
		return err
	}
	slots, err := strconv.Atoi(os.Getenv("AO_PEERS_SLOTS"))
	if err != nil {
		return err
	}
	free := make(chan struct{}, slots)
	r := newReport()
	beat, _ := time.ParseDuration(os.Getenv("AO_PEERS_BEAT")) // interval of progress messages; 0: none
	consume, err := c.Consume(func(m jetstream.Msg) {
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
	}, jetstream.PullMaxMessages(slots))
	if err != nil {
		return err
	}
	defer consume.Stop()
	r.ready()
	<-ctx.Done()
	return nil
}
