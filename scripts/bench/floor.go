package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"ao/scripts/try"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The floor is the smallest pipeline with the same three durable writes, on one stream:
//
//	HTTP → publish (ack) → pull consumer in another process
//	→ publish (ack) → no-op → publish (ack) → consumer → answer

const floorStream = "FLOOR"

func floorCoordinator(ctx context.Context, addr, url string) {
	nc := try.Must(nats.Connect(url))
	defer nc.Close()
	js := try.Must(jetstream.New(nc))
	s := try.Must(js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: floorStream, Subjects: []string{"floor.>"},
		Replicas: len(strings.Split(url, ","))}))
	try.Must(s.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: "work", FilterSubject: "floor.queued.>", AckPolicy: jetstream.AckExplicitPolicy,
		MaxAckPending: 16384}))
	var waiting sync.Map // run → chan []byte
	ended := try.Must(s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{FilterSubjects: []string{"floor.ended.>"},
		DeliverPolicy: jetstream.DeliverNewPolicy}))
	follow := try.Must(ended.Consume(func(m jetstream.Msg) {
		if ch, ok := waiting.LoadAndDelete(strings.TrimPrefix(m.Subject(), "floor.ended.")); ok {
			ch.(chan []byte) <- m.Data()
		}
	}))
	defer follow.Stop()
	l := try.Must(net.Listen("tcp", addr))
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var in struct {
			Mode string `json:"mode"`
		}
		if err == nil {
			err = json.Unmarshal(body, &in)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		id := nats.NewInbox()[7:]
		ch := make(chan []byte, 1)
		if in.Mode == "sync" {
			waiting.Store(id, ch)
		}
		if _, err := js.Publish(r.Context(), "floor.queued."+id, body); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if in.Mode != "sync" {
			w.WriteHeader(http.StatusCreated)
			io.Copy(w, bytes.NewReader([]byte(`{"run_id":"`+id+`"}`)))
			return
		}
		w.Write(<-ch)
	})}
	go func() { <-ctx.Done(); srv.Close() }()
	srv.Serve(l)
}

func floorWorker(ctx context.Context, url string, slots int) {
	nc := try.Must(nats.Connect(url))
	defer nc.Close()
	js := try.Must(jetstream.New(nc))
	var c jetstream.Consumer
	for c == nil { // until the coordinator has created it
		var err error
		c, err = js.Consumer(ctx, floorStream, "work")
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	report := newReporter()
	free := make(chan struct{}, slots)
	for range slots {
		free <- struct{}{}
	}
	consume := try.Must(c.Consume(func(m jetstream.Msg) {
		<-free
		go func() {
			defer func() { free <- struct{}{} }()
			id := strings.TrimPrefix(m.Subject(), "floor.queued.")
			if _, err := js.Publish(ctx, "floor.claimed."+id, []byte(`{"worker":"w"}`)); err != nil {
				return
			}
			m.Ack()
			report.started(m.Data())
			js.Publish(ctx, "floor.ended."+id, []byte(`{"status":"completed","result":{"result_type":"procedural",`+
				`"result_text":null,"result_data":{},"exit_code":0}}`))
		}()
	}, jetstream.PullMaxMessages(slots)))
	defer consume.Stop()
	report.ready()
	<-ctx.Done()
}
