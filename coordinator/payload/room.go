// Package payload shares the room for payloads, which the object store of NATS keeps, among callers and session trees.
package payload

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"ao/coordinator/health"
	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/shared/share"
)

// Stream is the stream of the object store.
const Stream = "OBJ_" + subject.Payloads

// Room is the room for payloads. What records name is counted in the projection. What else there is counts here: what
// is on its way to a record, what never got one, and the states of conversations.
type Room struct {
	Stream interface {
		StreamState(ctx context.Context, stream string) (bus.State, error)
		DropPayload(ctx context.Context, name string) error
	}
	History interface {
		StoredBytes() int64
		StoredBy(caller, session string) state.Stored
		SameTree(a, b string) bool
		NamesPayload(id, name string) bool
		Holder(id string) (caller, session string, ok bool)
		Ended(id string) bool
		ExecutorSessionID(session string) string
		Confirmed() bool
	}
	Wake func() // called after a refusal: room has to be made

	mu      sync.Mutex
	state   bus.State // as last read
	since   int64     // bytes admitted after that
	unnamed unnamed
	refused int64 // bytes of the largest payload that was refused in the last minute
	at      time.Time
}

// uploading is how long an upload may be without a next part. Then a list of the store tells whether it is there.
const uploading = time.Minute

// Owner is whose payload it is.
type Owner struct {
	Run     string
	Caller  string // hash of who caused it: run.Spec's, or its first eight digits
	Session string // of its tree: the run's session, or its parent if the session is new
}

// OwnerOf returns the owner of a run's payloads.
func OwnerOf(s *run.Spec) Owner {
	o := Owner{s.ID, s.Caller, s.SessionID}
	if s.Type == run.Start && s.Parent != "" {
		o.Session = s.Parent
	}
	return o
}

// Reconcile reads how full the object store is, and removes states that no session continues from.
func (r *Room) Reconcile(ctx context.Context) error {
	for _, name := range r.unbound() {
		if r.Stream.DropPayload(ctx, name) == nil {
			r.Forget(name)
		}
	}
	s, err := r.Stream.StreamState(ctx, Stream)
	if err != nil {
		return nil // whoever writes gets the error
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	r.state, r.since = s, 0
	return nil
}

// unboundFor is how long a state is kept at least that its session is not bound to.
const unboundFor = 10 * time.Minute

// unbound returns the states of ended runs that their sessions are not bound to. Only its own run binds one. There are
// none while the history is not confirmed: the record that binds one may be lost.
func (r *Room) unbound() (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, u := range r.unnamed.states {
		if time.Since(u.at) < unboundFor || !r.History.Ended(u.owner.Run) || !r.History.Confirmed() {
			continue
		}
		pointer, _ := runnerapi.StatePointerOf(name)
		if _, session, ok := r.History.Holder(u.owner.Run); ok && r.History.ExecutorSessionID(session) != pointer {
			names = append(names, name)
		}
	}
	return names
}

// Listed tells what the store had after a list of it began: the sizes of payloads in bytes, by name. What no record
// names counts to its run's caller for as long as it is there, whichever coordinator stored it.
func (r *Room) Listed(sizes map[string]int64, began time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := began.Add(-uploading)
	r.unnamed.missing(sizes, before)
	for name, bytes := range sizes {
		id := runnerapi.RunOfPayload(name)
		u, known := r.unnamed.find(name)
		caller, session, kept := r.History.Holder(id)
		switch {
		case known && u.at.Before(before):
			u.bytes = bytes
		case known || !kept || r.History.NamesPayload(id, name):
			continue
		default:
			u = upload{Owner{id, caller, session}, bytes, began}
		}
		r.unnamed.put(name, u)
	}
}

// use is who uses how much of the room.
type use struct {
	room   int64 // what may be used
	all    int64 // by all
	caller int64
	tree   int64
}

// The parts of the object store's limit that payloads may use. Inputs leave a tenth to the results of accepted runs.
// The rest is for the descriptions of objects.
func inputRoom(limit int64) int64  { return limit / 10 * 9 }
func resultRoom(limit int64) int64 { return limit / 20 * 19 }

// Input makes room for the input of a new run. Busy: the owner's share is used up. Unavailable: all is.
func (r *Room) Input(o Owner, name string, bytes int64) error {
	return r.admit(o, name, bytes, inputRoom, use.judge)
}

// Result makes room for a result, or for what else follows from an accepted run. bytes is what is known of it so far.
// Errors are Input's.
func (r *Room) Result(o Owner, name string, bytes int64) error {
	return r.admit(o, name, bytes, resultRoom, use.judgeResult)
}

// Forget forgets a payload that was removed, or is not stored.
func (r *Room) Forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unnamed.drop(name)
}

func (r *Room) admit(o Owner, name string, bytes int64, part func(limit int64) int64,
	judge func(u use, bytes int64) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	limit := r.state.MaxBytes
	own, _ := r.unnamed.find(name)
	more := bytes - own.bytes
	if limit > 0 && more > 0 {
		if err := r.check(o, name, bytes, part(limit), judge); err != nil {
			if time.Since(r.at) > time.Minute {
				r.refused = 0
			}
			r.refused, r.at = max(r.refused, bytes), time.Now()
			if r.Wake != nil {
				r.Wake()
			}
			return err
		}
	}
	r.unnamed.put(name, upload{o, max(bytes, own.bytes), time.Now()})
	r.since += max(more, 0)
	return nil
}

// check returns an error if a payload may not have so many bytes. The caller holds mu.
func (r *Room) check(o Owner, name string, bytes, room int64, judge func(u use, bytes int64) error) error {
	r.settle()
	own, _ := r.unnamed.find(name)
	// What NATS has beside that was stored by other coordinators, or is of runs that are no longer kept.
	all := max(r.History.StoredBytes()+r.unnamed.all, int64(r.state.Bytes)+r.since) - own.bytes
	if 5*(all+bytes) <= room { // no share is less than that
		return nil
	}
	stored := r.History.StoredBy(o.Caller, o.Session)
	mine := stored.Caller + r.unnamed.of[brief(o.Caller)] - own.bytes
	now := use{room: room, all: all, caller: mine, tree: stored.Tree}
	for other, u := range r.unnamed.uploads {
		if other != name && brief(u.owner.Caller) == brief(o.Caller) && r.History.SameTree(u.owner.Session, o.Session) {
			now.tree += u.bytes
		}
	}
	return judge(now, bytes)
}

// settle forgets what the projection counts. The caller holds mu.
func (r *Room) settle() {
	for name, u := range maps.Clone(r.unnamed.uploads) {
		if r.History.NamesPayload(u.owner.Run, name) {
			r.unnamed.drop(name)
		}
	}
}

// judge returns an error if bytes more are too many. A caller may have as much as is free, and a session tree half of
// that.
func (u use) judge(bytes int64) error {
	whose, held, most := "", int64(0), (u.room-(u.all-u.caller))/2
	switch {
	case !share.Free(u.room, u.all+bytes, u.caller, bytes): // as much is free afterwards
		whose, held = "caller", u.caller
	case u.tree > 0 && u.tree+bytes > most/2: // however large one is, a tree may have one
		whose, held, most = "session tree", u.tree, most/2
	default:
		return nil
	}
	if whose == "caller" && bytes > most && u.caller+bytes <= u.room/2 { // others have it
		return u.full(bytes)
	}
	return u.spent(whose, held, most, bytes)
}

// spent is the error where the owner has its share.
func (u use) spent(whose string, held, most, bytes int64) error {
	return fault.New(fault.Busy, run.CodePayloadShare, fmt.Sprintf("the payloads of this %s hold %s, its share of the "+
		"object store is %s, and this one has %s; delete sessions, wait until runs are no longer kept "+
		"(RUN_KEEP, RUN_RETENTION), or send at most %s, which needs no room there", whose, health.Size(uint64(held)),
		health.Size(uint64(max(most, 0))), health.Size(uint64(bytes)), health.Size(run.MaxInline))).
		With("whose", whose).With("held", held).With("share", max(most, 0)).With("size", bytes).After(retryAfter)
}

// judgeResult is judge for what follows from an accepted run. A caller has half, whatever others hold. Its trees have
// no shares of their own.
func (u use) judgeResult(bytes int64) error {
	switch {
	case share.Half(u.room, u.all, u.caller, bytes):
		return nil
	case u.caller+bytes <= u.room/2:
		return u.full(bytes)
	}
	return u.spent("caller", u.caller, u.room/2, bytes)
}

// full is the error where others have taken all.
func (u use) full(bytes int64) error {
	return fault.New(fault.Unavailable, run.CodePayloadsFull, fmt.Sprintf("the object store has no room for %s more: "+
		"%s of %s are used (max_bytes of %s, without a reserve for results); raise it, keep fewer runs (RUN_KEEP, "+
		"RUN_RETENTION), or send at most %s, which needs none", health.Size(uint64(bytes)), health.Size(uint64(u.all)),
		health.Size(uint64(u.room)), Stream, health.Size(run.MaxInline))).With("size", bytes).After(retryAfter)
}

// retryAfter is when a refused payload may be sent again: inputs of ended runs may be removed meanwhile.
const retryAfter = 30 * time.Second

// Short returns what reports whether a caller holds so much that the inputs of its ended runs have to go. That is more
// than three quarters of what is free, or so much that it would be refused what was refused in the last minute. It is
// given what records name: by all, and by the caller. It takes no lock, for it is called under the projection's.
func (r *Room) Short() func(caller string, all, of int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	room, refused, stored := inputRoom(r.state.MaxBytes), int64(0), int64(r.state.Bytes)
	if time.Since(r.at) < time.Minute {
		refused = r.refused
	}
	unnamed, mine := r.unnamed.all, maps.Clone(r.unnamed.of)
	return func(caller string, all, of int64) bool {
		of += mine[brief(caller)]
		all = max(all+unnamed, stored)
		return room > 0 && (refused > 0 && !share.Free(room, all+refused, of, refused) || of > (room-all)/4*3)
	}
}

// Refused returns when a payload was refused last.
func (r *Room) Refused() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at
}

// Full returns an error while no new run with large parameters is accepted, whoever sends it.
func (r *Room) Full() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := int64(r.state.Bytes) + r.since
	if room := inputRoom(r.state.MaxBytes); room <= 0 || all+run.MaxInline <= room {
		return nil
	}
	return use{room: inputRoom(r.state.MaxBytes), all: all}.full(run.MaxInline)
}
