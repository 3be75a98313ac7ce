// Package sessions shows, stops and deletes sessions. It also decides what a session token may touch: what is below its
// session.
package sessions

import (
	"context"
	"log/slog"
	"time"

	"ao/coordinator/projection/query"
	"ao/coordinator/projection/state"
	"ao/coordinator/runs"
	"ao/nats/bus"
	"ao/shared/run"
)

// Needs is what a Service works with.
type Needs struct {
	History interface {
		History
		attemptHistory
	}
	Reads   runs.Freshness
	Stops   Stops
	Records Records
	Stream  Stream
	Keys    Keys

	Version func() int                  // of records to write
	RunOf   func(payload string) string // the run that a payload belongs to
	Started func() bool                 // keys and registries have been read
	Ready   func() error
	Log     *slog.Logger
}

// History is the part of the history about sessions.
type History interface {
	Session(ctx context.Context, id string) (run.Session, error)
	Sessions(ctx context.Context, q query.Query) (query.SessionPage, error)
	Tree(ctx context.Context, id string, limit int, cursor string) (query.TreePage, error)
	SessionResult(ctx context.Context, id string) (run.Result, run.Run, error)
	Events(ctx context.Context, session, after string, limit int) ([]run.Event, string, error)
	Open(session string) []state.Active
	RunsOf(session string) []string
	Root(session string) string           // the run that was claimed last
	UndeliveredRun(session string) string // a child run whose callback to its parent session is pending
	StoppingBelow(session string) bool
	InStoppedTree(session string) bool
	DeletedAt(session string) uint64
}

// attemptHistory is the part of the history about attempts.
type attemptHistory interface {
	Active(id string) (state.Active, bool)
	Ready() error
}

// Stops stops runs and the sessions below a session.
type Stops interface {
	Stop(ctx context.Context, id string) (run.Run, error)
	Below(session string, stopping bool) *runs.Below
	StopTree(ctx context.Context, session, root, own string) (stopped bool, err error)
}

// Records writes the records of sessions.
type Records interface {
	Put(ctx context.Context, e bus.Entry) error
}

// Stream reads and purges the records.
type Stream interface {
	Last(ctx context.Context, subj string) (bus.Message, error)
	Records(ctx context.Context, filter string, after uint64, limit int) ([]bus.Message, error)
	Purge(ctx context.Context, stream, filter string, before uint64) error
	DropPayloads(ctx context.Context, old func(name string, size uint64, at time.Time) bool) error
}

// Keys derives the keys of attempts.
type Keys interface {
	Of(run string, attempt int) string
}
