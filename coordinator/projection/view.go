package projection

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"ao/coordinator/budget"
	"ao/nats/stream"
	"ao/shared/fault"
	"ao/shared/run"
)

// Reader reads of the log what the fold does not keep: what was asked for, and what came of it.
type Reader struct {
	p       *Projection
	records Log
	fresh   freshness
}

// errForgotten says that the record is no longer in the stream.
var errForgotten = errors.New("no longer kept")

// errNoBody says that the record is there, and the body that it names is not.
var errNoBody = fmt.Errorf("body: %w", errForgotten)

// body is the record with that sequence.
func (x *Reader) body(ctx context.Context, seq uint64) ([]byte, error) {
	if raw := x.p.bodies.get(seq); raw != nil {
		return raw, nil
	}
	for tries := 0; ; tries++ {
		m, err := x.records.Get(ctx, seq)
		if !errors.Is(err, stream.ErrNotFound) {
			return m.Body, err
		}
		if tries == 5 || seq+young < x.p.Seq() || ctx.Err() != nil {
			return nil, errForgotten
		}
		pause(ctx, 20*time.Millisecond)
	}
}

// young is how near to the end of the stream a record is that a replica may not have yet.
const young = 1000

// mostAtOnce is how much room is made for a body that a record only names.
const mostAtOnce = 32 << 20

// payload joins the parts of a body that was too large for its record.
func (x *Reader) payload(ctx context.Context, p *run.Payload) ([]byte, error) {
	if err := budget.Read(ctx, p.Size); err != nil {
		return nil, err
	}
	all := make([]byte, 0, max(0, min(p.Size, mostAtOnce)))
	for n := range p.Parts {
		part, err := x.records.GetPart(ctx, p.Name, n)
		if errors.Is(err, stream.ErrNotFound) {
			return nil, errNoBody
		}
		if err != nil {
			return nil, err
		}
		all = append(all, part...)
		if int64(len(all)) > p.Size {
			break // it is not what its record says
		}
	}
	if sum := sha256.Sum256(all); int64(len(all)) != p.Size || hex.EncodeToString(sum[:]) != p.SHA256 {
		return nil, fmt.Errorf("%w: payload %s is not what its record says", ErrUnreadable, p.Name)
	}
	return all, nil
}

// row is look for readers: an id that the fold doesn't know may just have been written, and what it takes for open
// while history is read may be long over.
func (x *Reader) row(ctx context.Context, id string) (sight, error) {
	if s, ok := x.p.look(id); ok && (s.snap == nil && x.fresh.intact() || x.fresh.complete()) {
		return s, nil
	}
	if err := run.CheckID(id); err != nil {
		return sight{}, err
	}
	if err := x.fresh.catchUp(ctx); err != nil {
		return sight{}, err
	}
	if s, ok := x.p.look(id); ok {
		return s, nil
	}
	return sight{}, x.noRun(id)
}

// Get is a run as readers see it, with its parameters. An unknown id is NotFound.
func (x *Reader) Get(ctx context.Context, id string) (run.Run, error) {
	s, err := x.row(ctx, id)
	if err != nil {
		return run.Run{}, err
	}
	return x.view(ctx, s, true)
}

// Spec is what was accepted, with parameters and agent also where they were too large for the record.
func (x *Reader) Spec(ctx context.Context, id string) (run.Spec, error) {
	s, err := x.row(ctx, id)
	if err != nil {
		return run.Spec{}, err
	}
	spec, err := x.spec(ctx, s, true)
	return spec, x.gone(id, err)
}

// gone turns "no longer kept" into what a reader is told; where NATS may have lost it, that this is not known.
func (x *Reader) gone(id string, err error) error {
	switch {
	case !errors.Is(err, errForgotten):
		return err
	case !x.fresh.Confirmed():
		return fault.Wrap(fault.Unavailable, "", "NATS may have lost records; looking again", err).After(time.Second)
	}
	if errors.Is(err, errNoBody) {
		say := "What the run " + id + " was given, or what came of it, is no longer kept: it was too large for the " +
			"run's record, and its body is gone. Start it anew with its parameters"
		return fault.New(fault.NotFound, codeEvicted, say).With("run_id", id)
	}
	return evicted("run", id)
}

// spec is the run's specification; large says whether a body that went through the object store is wanted too.
func (x *Reader) spec(ctx context.Context, s sight, large bool) (spec run.Spec, err error) {
	if s.snap != nil {
		spec = *s.snap.Spec
	} else if known := x.p.bodies.spec(s.whole); known != nil {
		spec = *known
	} else {
		raw, err := x.body(ctx, s.whole)
		if err != nil {
			return spec, err
		}
		q, err := run.DecodeQueued(raw, nil)
		if err != nil {
			return spec, fmt.Errorf("run %s: record %d: %w", s.id, s.whole, err)
		}
		spec = q.Spec
	}
	if spec.Body == nil || !large {
		return spec, nil
	}
	raw, err := x.payload(ctx, spec.Body)
	if err != nil {
		return spec, err
	}
	spec.Input = &run.Input{}
	if err := json.Unmarshal(raw, spec.Input); err != nil {
		return spec, fmt.Errorf("%w: payload %s: %w", ErrUnreadable, spec.Body.Name, err)
	}
	return spec, nil
}

// word is the last word on an ended run. One that cannot be read says so: no other will come.
func (x *Reader) word(ctx context.Context, s sight) (e run.Ended, err error) {
	if s.overstep {
		return run.Ended{Status: s.status, Error: NewerVersionError(), At: moment(s.ended)}, nil
	}
	raw, err := x.body(ctx, s.end)
	if err != nil {
		return e, err
	}
	switch e, err = run.DecodeEnded(raw); {
	case err == nil && e.Status == run.Completed && s.status == run.Failed:
		e = run.Ended{Status: s.status, Error: errUnchecked(), At: e.At}
	case err != nil || e.Status != s.status:
		e = run.Ended{Status: s.status, Error: fault.New(fault.Internal, "unreadable_end",
			"What the runner reported at the end of this run cannot be read")}
	}
	return e, nil
}

// view is a run as readers see it.
func (x *Reader) view(ctx context.Context, s sight, large bool) (run.Run, error) {
	spec, err := x.spec(ctx, s, large)
	if err != nil {
		return run.Run{}, x.gone(s.id, err)
	}
	r := s.bare()
	r.Type, r.Mode, r.Demands, r.CallbackURL, r.MaxAttempts = spec.Type, spec.Mode, spec.Demands, spec.CallbackURL,
		spec.Attempts
	r.Trace, r.RetryOf = spec.Trace, spec.RetryOf
	if spec.Input != nil {
		r.Parameters = spec.Parameters
	}
	if s.snap == nil && s.status != run.Completed {
		e, err := x.word(ctx, s)
		if err != nil {
			return run.Run{}, x.gone(s.id, err)
		}
		r.Error = e.Error
	}
	return r, nil
}

// Result is the result document of an ended run, and the run. A run that has not ended is a Conflict, and so is one
// that ended without a result; the latter carries the run's error.
func (x *Reader) Result(ctx context.Context, id string) (run.Result, run.Run, error) {
	s, err := x.row(ctx, id)
	if err != nil {
		return run.Result{}, run.Run{}, err
	}
	return x.result(ctx, s)
}

func (x *Reader) result(ctx context.Context, s sight) (run.Result, run.Run, error) {
	r, err := x.view(ctx, s, true)
	if err != nil {
		return run.Result{}, r, err
	}
	if s.snap != nil {
		return run.Result{}, r,
			fault.New(fault.Conflict, "run_not_ended",
				fmt.Sprintf("Run %s has not ended; it is %s. GET /runs/%s/wait waits for its end", s.id, s.status,
					s.id)).
				With("run_id", s.id).With("status", s.status)
	}
	e, err := x.word(ctx, s)
	if err != nil {
		return run.Result{}, r, x.gone(s.id, err)
	}
	res, err := x.document(ctx, e)
	if err != nil {
		return run.Result{}, r, x.gone(s.id, err)
	}
	if res == nil {
		f := fault.New(fault.Conflict, "no_result", fmt.Sprintf("Run %s ended as %s and has no result", s.id,
			s.status)).With("run_id", s.id).With("status", s.status)
		if e.Error != nil {
			f.Message += ": " + e.Error.Message
			f.With("run_error", e.Error)
		}
		return run.Result{}, r, f
	}
	return *res, r, nil
}

// document is the result in a last word; nil where there is none.
func (x *Reader) document(ctx context.Context, e run.Ended) (*run.Result, error) {
	if e.Body == nil {
		return e.Result, nil
	}
	raw, err := x.payload(ctx, e.Body)
	if err != nil {
		return nil, err
	}
	res := &run.Result{}
	if err := json.Unmarshal(raw, res); err != nil {
		return nil, fmt.Errorf("%w: payload %s: %w", ErrUnreadable, e.Body.Name, err)
	}
	return res, nil
}

// noRun says that a run is not there: that it is no longer kept, where its id is older than what is.
func (x *Reader) noRun(id string) *fault.Fault {
	if x.before(id) {
		return evicted("run", id)
	}
	return fault.Newf(fault.NotFound, "There is no run %s; GET /runs lists those that are kept", id).With("run_id", id)
}

// noSession is noRun for sessions. Of an id that its caller chose nobody knows how old it is.
func (x *Reader) noSession(id string) *fault.Fault {
	deleted := read(x.p, func(f *fold) bool { return f.deleted[identOf(sessionPrefix, id)] != 0 })
	if !deleted && x.before(id) {
		return evicted("session", id)
	}
	return fault.Newf(fault.NotFound, "There is no session %s; GET /sessions lists those that are kept",
		id).With("session_id", id)
}

// codeEvicted is the code of what was kept once.
const codeEvicted = "no_longer_kept"

func evicted(what, id string) *fault.Fault {
	say := "The " + what + " " + id + " is no longer kept: RUN_KEEP or RUN_RETENTION came first, or it was deleted. " +
		"An Idempotency-Key goes on to give its ids, and does it not again"
	return fault.New(fault.NotFound, codeEvicted, say).With(what+"_id", id)
}

// before tells whether an id of ours was made before everything that is kept, of a history that has lost its beginning.
func (x *Reader) before(id string) bool {
	made, ok := run.CreatedAt(id)
	if !ok {
		return false
	}
	return read(x.p, func(f *fold) bool {
		if !made.After(moment(x.p.evicted)) {
			return true
		}
		for _, r := range f.order {
			if !r.gone {
				return r.first > 1 && made.Before(moment(r.created))
			}
		}
		return false
	})
}
