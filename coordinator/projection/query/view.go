package query

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"ao/coordinator/budget"
	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/nats/stream"
	"ao/shared/clock"
	"ao/shared/fault"
	"ao/shared/run"
)

// Reader reads from the log what the projection does not keep: specs, errors and results.
type Reader struct {
	p       *projection.Projection
	records Log
	fresh   Freshness
}

// errNotKept says that a record is no longer in the stream.
var errNotKept = errors.New("no longer kept")

// errNoBody says that a record exists, but the payload it names does not.
var errNoBody = fmt.Errorf("body: %w", errNotKept)

// body returns the record with a sequence.
func (x *Reader) body(ctx context.Context, seq uint64) ([]byte, error) {
	if raw, _ := x.p.Bodies.Get(seq); raw != nil {
		return raw, nil
	}
	for tries := 0; ; tries++ {
		m, err := x.records.Get(ctx, seq)
		if !errors.Is(err, stream.ErrNotFound) {
			return m.Body, err
		}
		if tries == 5 || seq+maxReplicaLag < x.p.Seq() || ctx.Err() != nil {
			return nil, errNotKept
		}
		clock.Sleep(ctx, 20*time.Millisecond)
	}
}

// maxReplicaLag is how many of the newest records a replica may not have yet.
const maxReplicaLag = 1000

// maxPrealloc is how much memory is allocated ahead for a payload.
const maxPrealloc = 32 << 20

// payload joins the parts of a large body.
func (x *Reader) payload(ctx context.Context, p *run.Payload) ([]byte, error) {
	if err := budget.Read(ctx, p.Size); err != nil {
		return nil, err
	}
	all := make([]byte, 0, max(0, min(p.Size, maxPrealloc)))
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

// row is lookup for readers. An unknown id may just have been written, and a run that looks open while history is read
// may be long over.
func (x *Reader) row(ctx context.Context, id string) (state.View, error) {
	if s, ok := lookup(x.p, id); ok && (s.Active == nil && x.fresh.Intact() || x.fresh.Complete()) {
		return s, nil
	}
	if err := run.CheckID(id); err != nil {
		return state.View{}, err
	}
	if err := x.fresh.CatchUp(ctx); err != nil {
		return state.View{}, err
	}
	if s, ok := lookup(x.p, id); ok {
		return s, nil
	}
	return state.View{}, x.noRun(id)
}

// Get returns a run as readers see it, with its parameters. An unknown id is NotFound.
func (x *Reader) Get(ctx context.Context, id string) (run.Run, error) {
	s, err := x.row(ctx, id)
	if err != nil {
		return run.Run{}, err
	}
	return x.view(ctx, s, true)
}

// Spec returns what was accepted, with parameters and agent even if they are large.
func (x *Reader) Spec(ctx context.Context, id string) (run.Spec, error) {
	s, err := x.row(ctx, id)
	if err != nil {
		return run.Spec{}, err
	}
	spec, err := x.spec(ctx, s, true)
	if _, expired := x.expired(s, err); expired {
		return spec, fault.New(fault.NotFound, run.CodeParametersExpired, "the parameters of run "+id+" were removed "+
			"to make room for others; send them again in a new run").With("run_id", id)
	}
	return spec, x.notKept(id, err)
}

// Request returns the session of a run, and the hash of the request that made it. The run's first record has it; empty:
// it had none, or that record is unreadable. An unknown id is NotFound.
func (x *Reader) Request(ctx context.Context, id string) (session, hash string, err error) {
	s, err := x.row(ctx, id)
	if err != nil {
		return "", "", err
	}
	raw, err := x.body(ctx, s.First)
	if errors.Is(err, errNotKept) {
		return s.SessionID, "", nil
	}
	if err != nil {
		return "", "", err
	}
	q, _ := run.DecodeQueued(raw, nil)
	return s.SessionID, q.RequestHash, nil
}

// notKept turns errNotKept into what a reader is told; while data loss is suspected, into Unavailable.
func (x *Reader) notKept(id string, err error) error {
	switch {
	case !errors.Is(err, errNotKept):
		return err
	case !x.fresh.Confirmed():
		return fault.Wrap(fault.Unavailable, "", "NATS may have lost records; checking", err).After(time.Second)
	}
	if errors.Is(err, errNoBody) {
		say := "What the run " + id + " was given, or its result, is no longer kept: it was too large for the run's " +
			"record, and its body is gone. Start a new run with the parameters"
		return fault.New(fault.NotFound, CodeEvicted, say).With("run_id", id)
	}
	return errEvicted("run", id)
}

// expired reports whether an error says that an ended run's input was removed. It may have ended meanwhile.
func (x *Reader) expired(s state.View, err error) (now state.View, expired bool) {
	if !errors.Is(err, errNoBody) || !x.fresh.Confirmed() {
		return s, false
	}
	if now, ok := lookup(x.p, s.ID); ok {
		s = now
	}
	return s, s.Active == nil
}

// spec returns the run's specification; large: read it even if it is a payload.
func (x *Reader) spec(ctx context.Context, s state.View, large bool) (spec run.Spec, err error) {
	if s.Active != nil {
		spec = *s.Active.Spec
	} else if _, known := x.p.Bodies.Get(s.Full); known != nil {
		spec = *known
	} else {
		raw, err := x.body(ctx, s.Full)
		if err != nil {
			return spec, err
		}
		q, err := run.DecodeQueued(raw, nil)
		if err != nil {
			return spec, fmt.Errorf("run %s: record %d: %w", s.ID, s.Full, err)
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

// endRecord returns the end record of an ended run. An unreadable one becomes an error: no other can come.
func (x *Reader) endRecord(ctx context.Context, s state.View) (e run.Ended, err error) {
	if s.VersionExceeded {
		return run.Ended{Status: s.Status, Error: state.NewerVersionError(), At: state.Moment(s.Ended)}, nil
	}
	raw, err := x.body(ctx, s.End)
	if err != nil {
		return e, err
	}
	switch e, err = run.DecodeEnded(raw); {
	case err == nil && e.Status == run.Completed && s.Status == run.Failed:
		e = run.Ended{Status: s.Status, Error: errUnchecked(), At: e.At}
	case err != nil || e.Status != s.Status:
		e = run.Ended{
			Status: s.Status,
			Error: fault.New(fault.Internal, "unreadable_end",
				"What the runner reported at the end of this run cannot be read"),
		}
	}
	return e, nil
}

// view returns a run as readers see it.
func (x *Reader) view(ctx context.Context, s state.View, large bool) (run.Run, error) {
	spec, err := x.spec(ctx, s, large)
	s, expired := x.expired(s, err)
	if expired { // its result and all else are kept
		spec, err = x.spec(ctx, s, false)
	}
	if err != nil {
		return run.Run{}, x.notKept(s.ID, err)
	}
	r := s.Run()
	r.ParametersExpired = expired
	r.Type, r.Mode, r.Demands, r.CallbackURL, r.MaxAttempts = spec.Type, spec.Mode, spec.Demands, spec.CallbackURL,
		spec.Attempts
	r.Trace, r.RetryOf = spec.Trace, spec.RetryOf
	if spec.Input != nil {
		r.Parameters = spec.Parameters
	}
	if s.Active == nil && s.Status != run.Completed {
		e, err := x.endRecord(ctx, s)
		if err != nil {
			return run.Run{}, x.notKept(s.ID, err)
		}
		r.Error = e.Error
	}
	return r, nil
}

// Result returns the result of an ended run, and the run. An open run is a Conflict. So is one without a result, which
// carries the run's error.
func (x *Reader) Result(ctx context.Context, id string) (run.Result, run.Run, error) {
	s, err := x.row(ctx, id)
	if err != nil {
		return run.Result{}, run.Run{}, err
	}
	return x.result(ctx, s)
}

func (x *Reader) result(ctx context.Context, s state.View) (run.Result, run.Run, error) {
	r, err := x.view(ctx, s, true)
	if err != nil {
		return run.Result{}, r, err
	}
	if s.Active != nil {
		return run.Result{}, r,
			fault.New(fault.Conflict, "run_not_ended",
				fmt.Sprintf("Run %s has not ended; it is %s. GET /runs/%s/wait waits for its end", s.ID, s.Status,
					s.ID)).With("run_id", s.ID).With("status", s.Status)
	}
	e, err := x.endRecord(ctx, s)
	if err != nil {
		return run.Result{}, r, x.notKept(s.ID, err)
	}
	res, err := x.document(ctx, e)
	if err != nil {
		return run.Result{}, r, x.notKept(s.ID, err)
	}
	if res == nil {
		f := fault.New(fault.Conflict, "no_result", fmt.Sprintf("Run %s ended as %s and has no result", s.ID,
			s.Status)).With("run_id", s.ID).With("status", s.Status)
		if e.Error != nil {
			f.Message += ": " + e.Error.Message
			f.With("run_error", e.Error)
		}
		return run.Result{}, r, f
	}
	return *res, r, nil
}

// document returns the result in an end record; nil if it has none.
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

// noRun says that a run does not exist or, if its id is older than everything kept, that it is no longer kept.
func (x *Reader) noRun(id string) *fault.Fault {
	if x.predates(id) {
		return errEvicted("run", id)
	}
	return fault.Newf(fault.NotFound, "There is no run %s; GET /runs lists those that are kept", id).With("run_id", id)
}

// noSession is noRun for sessions. The age of an id that its caller chose is unknown.
func (x *Reader) noSession(id string) *fault.Fault {
	deleted := projection.Read(x.p, func(f *state.State) bool { return state.DeletedAt(f, id) != 0 })
	if !deleted && x.predates(id) {
		return errEvicted("session", id)
	}
	return fault.Newf(fault.NotFound, "There is no session %s; GET /sessions lists those that are kept", id).
		With("session_id", id)
}

// CodeEvicted is the error code of what is no longer kept.
const CodeEvicted = "no_longer_kept"

func errEvicted(what, id string) *fault.Fault {
	return fault.New(fault.NotFound, CodeEvicted, "The "+what+" "+id+" is no longer kept: RUN_KEEP or RUN_RETENTION "+
		"came first, or it was deleted").With(what+"_id", id)
}

// predates reports whether one of our ids is older than everything kept, in a history that was truncated.
func (x *Reader) predates(id string) bool {
	made, ok := run.CreatedAt(id)
	if !ok {
		return false
	}
	return projection.Read(x.p, func(f *state.State) bool {
		if _, newest := x.p.Truncation(); !made.After(newest) {
			return true
		}
		for _, r := range state.RunsBelow(f, math.MaxUint64) {
			if !r.Evicted {
				return r.First > 1 && made.Before(state.Moment(r.Created))
			}
		}
		return false
	})
}

// errUnchecked returns the error of a run that its worker reported as completed without a check of the result.
func errUnchecked() *fault.Fault {
	return fault.New(fault.Internal, "result_unchecked",
		"The runner itself reported the run as completed, but a result with an output schema counts only after a "+
			"coordinator has checked it; it is not shown")
}

// ErrUnreadable says that a stored record or body is invalid, and will remain so.
var ErrUnreadable = errors.New("unreadable")

// Wait waits until a run has ended. If ctx ends first, it returns the run as it is and ctx's error.
func (x *Reader) Wait(ctx context.Context, id string) (run.Run, error) {
	if _, err := x.row(ctx, id); err != nil {
		return run.Run{}, err
	}
	if err := x.p.Done(ctx, id); err != nil {
		r, gone := x.Get(context.WithoutCancel(ctx), id)
		return r, cmp.Or(gone, err)
	}
	return x.Get(ctx, id)
}
