package bus

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"ao/shared/metric"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Config is how a Bus behaves; its zero value works.
type Config struct {
	Replicas       int           // of streams and buckets, default 1
	MaxBytes       int64         // of RUNS, default 4 GiB, or what the server has room for
	EventMaxBytes  int64         // of EVENTS, default as MaxBytes; the oldest give way
	EventMaxAge    time.Duration // of EVENTS, default 168h
	RejectedMaxAge time.Duration // of REJECTED, default 168h
	KeyMaxAge      time.Duration // of the bucket "idempotency", default 168h
	Log            *slog.Logger  // default slog.Default()

	// Confined is for a worker on a NATS that asks who it is: it has no right to read RUNS, and asks a coordinator what became of a record of its own.
	Confined bool

	// GroupWith is another Bus of this process: what is appended here goes with its appends, over its connection and with its rights.
	// So both share each sync to disk.
	GroupWith *Bus

	// Disk says what keeps an embedded server from writing; nil: nothing. Without it a server that does not write is told by its silence.
	Disk func() error
	// OnSetup is called when Setup has seen to the streams; nil: nobody wants to know.
	OnSetup func()

	Metrics *metric.Registry // default nil: nothing is counted
}

// Bus is one connection's view of the streams, put together of what one may do with them. Its methods, and those of its parts, may
// be called from many goroutines.
type Bus struct {
	*Conn
	*Requests
	*Reader
	*Log
	*Queues
	*Store
}

// Open makes a Bus of a connection that has been made; it stays the caller's to close. It sends nothing.
func Open(nc *nats.Conn, cfg Config) (*Bus, error) {
	cfg.Replicas = cmp.Or(cfg.Replicas, 1)
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, 4<<30)
	cfg.EventMaxBytes = cmp.Or(cfg.EventMaxBytes, cfg.MaxBytes)
	cfg.EventMaxAge = cmp.Or(cfg.EventMaxAge, 168*time.Hour)
	cfg.RejectedMaxAge = cmp.Or(cfg.RejectedMaxAge, 168*time.Hour)
	cfg.KeyMaxAge = cmp.Or(cfg.KeyMaxAge, 168*time.Hour)
	if cfg.Replicas < 1 || cfg.Replicas > 5 {
		return nil, fmt.Errorf("AO_NATS_REPLICAS %d: use 1 to 5", cfg.Replicas)
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(patience), jetstream.WithPublishAsyncMaxPending(16384), jetstream.WithPublishAsyncTimeout(patience))
	if err != nil {
		return nil, err
	}
	conn := newConn(nc, js, cfg)
	requests := &Requests{Conn: conn}
	reader := &Reader{Conn: conn, asks: requests.Request, disbelief: disbelief}
	return &Bus{conn, requests, reader, newLog(conn, reader), &Queues{conn}, &Store{Conn: conn}}, nil
}
