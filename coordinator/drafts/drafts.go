// Package drafts keeps schemas that somebody is writing: text beside an agent's definition, JSON or not yet. A draft is
// no part of the definition, and changes nothing of what runs are given. It goes with its agent.
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
	"ao/shared/fault"
)

// Sides are the schemas of an agent that can have a draft.
var Sides = []string{"input", "output"}

// Limits, in bytes. Drafts that are written at the same moment may go a little beyond the second.
const (
	MaxText = 256 << 10
	maxAll  = 64 << 20
)

// Draft is a text and the tag of this version of it.
type Draft struct {
	Text string
	Tag  string
}

// Match reports whether what is there may be changed: the tag of the draft, empty where there is none. nil allows
// anything.
type Match func(tag string) bool

// Store has all drafts.
type Store struct {
	Log    *slog.Logger
	Bucket Bucket
	// why an agent's schemas cannot be written, or that there is none
	Editable func(ctx context.Context, agent string) error
	Exists   func(agent string) bool // also where its file is broken at the moment
	Ready    func() bool             // Exists knows

	mu      sync.Mutex
	missing map[string]time.Time // agents of drafts that do not exist, since when
}

// Bucket keeps them.
type Bucket interface {
	Get(ctx context.Context, key string) (body []byte, rev uint64, err error)
	Create(ctx context.Context, key string, body []byte) (rev uint64, err error)
	Update(ctx context.Context, key string, body []byte, rev uint64) (next uint64, err error)
	Delete(ctx context.Context, key string) error
	DeleteRev(ctx context.Context, key string, rev uint64) error
	Keys(ctx context.Context) (keys []string, bytes uint64, err error)
}

// key is where a draft is kept.
func key(name, side string) (string, error) {
	if err := agent.CheckName("name", name); err != nil {
		return "", err
	}
	if !slices.Contains(Sides, side) {
		return "", fault.Newf(fault.NotFound, "There is no draft %.40q; an agent has input and output", side)
	}
	return name + "." + side, nil
}

// Get is one draft.
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

func draft(text []byte, rev uint64) Draft {
	return Draft{string(text), strconv.FormatUint(rev, 10)}
}

func errNone(name, side string) error {
	return fault.Newf(fault.NotFound, "Agent %q has no draft of its %s schema", name, side).With("agent_name", name)
}

// Put keeps a text, and returns its tag. The agent has to be one whose schemas can be written.
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

// checkSpace refuses a text for which there is no room.
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

// Delete takes a draft away.
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

// change does what depends on the revision that is there, 0: there is none.
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

// errStale is the refusal of a change of what its caller did not see.
func errStale(name string, now Draft) error {
	f := fault.New(fault.Stale, "", "The draft has changed since it was read; look at current, and send its ETag as "+
		"If-Match").With("agent_name", name)
	if now.Tag == "" {
		return f.With("current", nil)
	}
	return f.With("etag", `"`+now.Tag+`"`).With("current", now.Text)
}

// Sides are the drafts that there are, by agent.
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

// Forget takes all drafts of an agent away. What cannot be deleted now goes later (Run).
func (s *Store) Forget(ctx context.Context, name string) {
	for _, side := range Sides {
		at := name + "." + side
		if _, _, err := s.Bucket.Get(ctx, at); errors.Is(err, bus.ErrNotFound) {
			continue
		}
		if err := s.Bucket.Delete(ctx, at); err != nil {
			s.Log.Warn("draft of an agent that is gone is still there", "agent", name, "side", side, "err", err)
		}
	}
}

// The rhythm of looking for drafts without an agent, and how long an agent may be missing: who edits a file by hand may
// move it away for a while.
const (
	sweepInterval = time.Minute
	grace         = 10 * time.Minute
)

// Run removes drafts whose agents are gone, until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	t := time.NewTicker(sweepInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case now := <-t.C:
			s.Sweep(ctx, now)
		}
	}
}

// Sweep removes the drafts of agents that have been missing for ten minutes, as far as this coordinator saw.
func (s *Store) Sweep(ctx context.Context, now time.Time) {
	if !s.Ready() {
		return
	}
	all, err := s.Sides(ctx)
	if err != nil {
		return // NATS is away: later
	}
	for _, name := range s.expired(all, now) {
		s.Forget(ctx, name)
		s.Log.Info("drafts are gone with their agent", "agent", name)
	}
}

// expired notes which agents are missing, and gives those that have been for long enough.
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
