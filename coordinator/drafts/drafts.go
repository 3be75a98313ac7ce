// Package drafts stores drafts of agents' schemas: any text, valid JSON or not. A draft has no effect on runs. It is
// deleted with its agent.
package drafts

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"ao/nats/bus"
	"ao/shared/agent"
	"ao/shared/clock"
	"ao/shared/fault"
)

// Sides are the schemas of an agent that can have a draft.
var Sides = []string{"input", "output"}

// Limits, in bytes. Drafts that are written at the same moment may exceed maxAll a little.
const (
	MaxText = 256 << 10
	maxAll  = 64 << 20
)

// Draft is a text and the tag of its version.
type Draft struct {
	Text string
	Tag  string
}

// Match reports whether the current draft may be changed, by its tag; empty: there is none. nil allows any.
type Match func(tag string) bool

// Store stores drafts.
type Store struct {
	Log    *slog.Logger
	Bucket Bucket
	// says why an agent's schemas cannot be edited, or that there is no such agent
	Editable func(ctx context.Context, agent string) error
	Exists   func(agent string) bool // also while its file is broken
	Ready    func() bool             // Exists can tell

	mu      sync.Mutex
	missing map[string]time.Time // agents of drafts that do not exist, and since when
}

// Bucket is the key-value bucket of drafts.
type Bucket interface {
	Get(ctx context.Context, key string) (body []byte, rev uint64, err error)
	Create(ctx context.Context, key string, body []byte) (rev uint64, err error)
	Update(ctx context.Context, key string, body []byte, rev uint64) (next uint64, err error)
	Delete(ctx context.Context, key string) error
	DeleteRev(ctx context.Context, key string, rev uint64) error
	Keys(ctx context.Context) (keys []string, bytes uint64, err error)
}

// key returns where a draft is stored.
func key(name, side string) (string, error) {
	if err := agent.CheckName("name", name); err != nil {
		return "", err
	}
	if !slices.Contains(Sides, side) {
		return "", fault.Newf(fault.NotFound, "There is no draft %.40q; an agent has input and output", side)
	}
	return name + "." + side, nil
}

// Get returns one draft.
func (s *Store) Get(ctx context.Context, name, side string) (Draft, error) {
	at, err := key(name, side)
	if err != nil {
		return Draft{}, err
	}
	text, rev, err := s.Bucket.Get(ctx, at)
	if errors.Is(err, bus.ErrNotFound) {
		return Draft{}, errNone(name, side)
	} else if err != nil {
		return Draft{}, bus.ReadUnanswered(err)
	}
	return draft(text, rev), nil
}

func draft(text []byte, rev uint64) Draft { return Draft{string(text), strconv.FormatUint(rev, 10)} }

func errNone(name, side string) error {
	return fault.Newf(fault.NotFound, "Agent %q has no draft of its %s schema", name, side).With("agent_name", name)
}

// Put stores a draft and returns its tag. The agent's schemas must be editable.
func (s *Store) Put(ctx context.Context, name, side string, text []byte, match Match) (tag string, err error) {
	at, err := key(name, side)
	switch {
	case err != nil:
		return "", err
	case len(text) > MaxText:
		return "", fault.Newf(fault.TooLarge, "a draft has at most %d bytes, this one has %d", MaxText, len(text)).
			With("limit", MaxText)
	case !utf8.Valid(text):
		return "", fault.New(fault.Invalid, "", "a draft is text in UTF-8")
	}
	if err := s.Editable(ctx, name); err != nil {
		return "", err
	}
	if err := s.checkSpace(ctx, len(text)); err != nil {
		return "", err
	}
	var rev uint64
	err = s.change(ctx, at, name, match, func(old uint64) error {
		if old == 0 {
			rev, err = s.Bucket.Create(ctx, at, text)
		} else {
			rev, err = s.Bucket.Update(ctx, at, text, old)
		}
		return err
	})
	return strconv.FormatUint(rev, 10), err
}

// checkSpace refuses a text beyond maxAll.
func (s *Store) checkSpace(ctx context.Context, n int) error {
	_, size, err := s.Bucket.Keys(ctx)
	if err != nil {
		return bus.WriteUnanswered(err)
	}
	if size+uint64(n) > maxAll {
		return fault.Newf(fault.TooLarge, "the drafts of all agents take %d bytes, and %d are allowed; delete some",
			size, maxAll).With("limit", maxAll)
	}
	return nil
}

// Delete deletes a draft.
func (s *Store) Delete(ctx context.Context, name, side string, match Match) error {
	at, err := key(name, side)
	if err != nil {
		return err
	}
	return s.change(ctx, at, name, match, func(old uint64) error {
		if old == 0 {
			return errNone(name, side)
		}
		return s.Bucket.DeleteRev(ctx, at, old)
	})
}

// change calls do with the current revision; 0: there is no draft. It repeats where that changed meanwhile.
func (s *Store) change(ctx context.Context, at, name string, match Match, do func(old uint64) error) error {
	for range 8 { // others may change it at the same time
		text, rev, err := s.Bucket.Get(ctx, at)
		if errors.Is(err, bus.ErrNotFound) {
			text, rev = nil, 0
		} else if err != nil {
			return bus.WriteUnanswered(err)
		}
		now := Draft{}
		if rev != 0 {
			now = draft(text, rev)
		}
		if match != nil && !match(now.Tag) {
			return errStale(name, now)
		}
		err = do(rev)
		if errors.Is(err, bus.ErrTaken) {
			continue
		}
		if _, ok := errors.AsType[*fault.Fault](err); ok || err == nil {
			return err
		}
		return bus.WriteUnanswered(err)
	}
	return fault.Newf(fault.Conflict, "This draft of agent %q is being changed by others; try again", name).
		With("agent_name", name)
}

// errStale returns the error for changing a version that the caller did not see.
func errStale(name string, now Draft) error {
	f := fault.New(fault.Stale, "", "If-Match or If-None-Match excludes the present version of the draft; see "+
		"current, and send its ETag as If-Match").With("agent_name", name)
	if now.Tag == "" {
		return f.With("current", nil)
	}
	return f.With("etag", `"`+now.Tag+`"`).With("current", now.Text)
}

// Sides lists which drafts there are, by agent.
func (s *Store) Sides(ctx context.Context) (map[string][]string, error) {
	keys, _, err := s.Bucket.Keys(ctx)
	if err != nil {
		return nil, bus.ReadUnanswered(err)
	}
	all := map[string][]string{}
	for _, k := range keys {
		name, side, _ := strings.Cut(k, ".")
		all[name] = append(all[name], side)
	}
	for _, sides := range all {
		slices.Sort(sides)
	}
	return all, nil
}

// Forget deletes all drafts of an agent. Run deletes what could not be deleted now.
func (s *Store) Forget(ctx context.Context, name string) {
	for _, side := range Sides {
		at := name + "." + side
		if _, _, err := s.Bucket.Get(ctx, at); errors.Is(err, bus.ErrNotFound) {
			continue
		}
		if err := s.Bucket.Delete(ctx, at); err != nil {
			s.Log.Warn("draft of a deleted agent was not deleted", "agent", name, "side", side, "err", err)
		}
	}
}

// sweepInterval is how often drafts without an agent are looked for. grace is how long an agent may be missing: its
// file may be moved while it is edited.
const (
	sweepInterval = time.Minute
	grace         = 10 * time.Minute
)

// Run deletes drafts of missing agents until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	for clock.Sleep(ctx, sweepInterval) {
		s.Sweep(ctx, time.Now())
	}
	return ctx.Err()
}

// Sweep deletes the drafts of agents that this coordinator has not seen for ten minutes.
func (s *Store) Sweep(ctx context.Context, now time.Time) {
	if !s.Ready() {
		return
	}
	all, err := s.Sides(ctx)
	if err != nil {
		return // NATS is unavailable: next time
	}
	for _, name := range s.expired(all, now) {
		s.Forget(ctx, name)
		s.Log.Info("drafts deleted with their agent", "agent", name)
	}
}

// expired updates which agents are missing and returns those that have been for longer than grace.
func (s *Store) expired(all map[string][]string, now time.Time) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	still := map[string]time.Time{}
	for name := range all {
		if s.Exists(name) {
			continue
		}
		since, ok := s.missing[name]
		if !ok {
			since = now
		}
		if now.Sub(since) >= grace {
			names = append(names, name)
			continue
		}
		still[name] = since
	}
	s.missing = still
	return names
}
