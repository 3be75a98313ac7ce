package bus

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"ao/nats/stream"
	"ao/shared/metric"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// DefaultMemory is the memory of a NATS server in bytes if nothing else is said: that of the shipped configurations.
const DefaultMemory = 2 << 30

// Config configures a Bus. Its zero value works.
type Config struct {
	Replicas        int           // of streams and buckets, default 1
	MaxBytes        int64         // of RUNS, default 4 GiB, or less if the server has less space
	EventMaxBytes   int64         // of EVENTS, default as MaxBytes; the oldest are discarded
	PayloadMaxBytes int64         // of the object store, default as MaxBytes
	EventMaxAge     time.Duration // of EVENTS, default 168h
	RejectedMaxAge  time.Duration // of REJECTED, default 168h
	KeyMaxAge       time.Duration // of what the bucket Reservations holds, default 168h
	Memory          int64         // of the NATS server in bytes, default 2 GiB: it bounds messages (SubjectMemory)
	Log             *slog.Logger  // default slog.Default()

	// Confined is for a worker that logged in to NATS. It has no permission to read RUNS, and asks a
	// coordinator for its own records.
	Confined bool

	// GroupWith is another Bus of this process that does this one's appends, with its connection and
	// permissions. So both share each sync to disk.
	GroupWith *Bus

	// Disk reports what keeps an embedded server from writing. nil: unknown, and a server that does not write
	// is detected by missing replies.
	Disk func() error
	// OnSetup is called when Setup has created the streams. nil: nothing is called.
	OnSetup func()

	Metrics *metric.Registry // default nil: nothing is counted
}

// Bus is one connection to the streams, composed of what can be done with them. All methods may be called concurrently.
type Bus struct {
	*Conn
	*Requests
	*Reader
	*Log
	*Queues
	*Store
}

// Open makes a Bus of a connection, which remains the caller's to close. It sends nothing.
func Open(nc *nats.Conn, cfg Config) (*Bus, error) {
	cfg.Replicas = cmp.Or(cfg.Replicas, 1)
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, 4<<30)
	cfg.EventMaxBytes = cmp.Or(cfg.EventMaxBytes, cfg.MaxBytes)
	cfg.PayloadMaxBytes = cmp.Or(cfg.PayloadMaxBytes, cfg.MaxBytes)
	cfg.Memory = cmp.Or(cfg.Memory, DefaultMemory)
	cfg.EventMaxAge = cmp.Or(cfg.EventMaxAge, 168*time.Hour)
	cfg.RejectedMaxAge = cmp.Or(cfg.RejectedMaxAge, 168*time.Hour)
	cfg.KeyMaxAge = cmp.Or(cfg.KeyMaxAge, 168*time.Hour)
	if cfg.Replicas < 1 || cfg.Replicas > 5 {
		return nil, fmt.Errorf("AO_NATS_REPLICAS %d: use 1 to 5", cfg.Replicas)
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(requestTimeout))
	if err != nil {
		return nil, err
	}
	conn := newConn(nc, js, cfg)
	requests := &Requests{Conn: conn}
	reader := &Reader{Conn: conn, askCoordinator: requests.Request, suspectTimeout: stream.SuspectTimeout}
	return &Bus{conn, requests, reader, newLog(conn, reader), &Queues{conn}, &Store{Conn: conn}}, nil
}
