package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/clock"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/shared/strictjson"
	"ao/worker/process"
	"ao/worker/profile"
)

// maxMessage is the longest error message in a record, in bytes.
const maxMessage = 32 << 10

// maxRecord is the largest record that fits into a message, in bytes.
const maxRecord = 900 << 10

// recordBuilder builds the records that this runner appends for its attempts.
type recordBuilder struct {
	runner             string // runner id
	instance           string // of this process
	host               string
	profile            *profile.Profile
	maxVersion         int        // newest version that this program writes
	coordinatorVersion func() int // newest version that all coordinators read
	maxResult          int64      // largest result, in bytes
	payloads           *payloads

	nonces atomic.Uint64
}

// nonce returns an id for one append: random per process, different per call. It tells an own record from another's.
func (s *recordBuilder) nonce() string {
	return s.instance + "." + strconv.FormatUint(s.nonces.Add(1), 10)
}

// version returns the record version for an attempt: the newest that the attempt, this program and all online
// coordinators support.
func (s *recordBuilder) version(a *attempt) int {
	return min(s.maxVersion, s.coordinatorVersion(), a.MaxRecordVersion())
}

// hasNonce returns a check whether a record has this nonce.
func hasNonce(nonce string) func([]byte) bool {
	return func(body []byte) bool {
		var r struct {
			Nonce string `json:"nonce"`
		}
		return json.Unmarshal(body, &r) == nil && r.Nonce == nonce
	}
}

// appendWithRetry appends a record until it is committed or another record is, which is bus.ErrTaken. When ctx ends
// first, the error is its cause. failed is called after each try whose result is unknown.
func appendWithRetry(ctx context.Context, b *bus.Bus, e bus.Entry, own func([]byte) bool,
	failed func(try int, err error)) (seq uint64, err error) {
	for try, pause := 1, 100*time.Millisecond; ctx.Err() == nil; try, pause = try+1, min(2*pause, 2*time.Second) {
		seq, err = b.AppendAndVerify(ctx, e, own)
		if err == nil || errors.Is(err, bus.ErrTaken) {
			return seq, err
		}
		failed(try, err)
		clock.Sleep(ctx, pause/2+rand.N(pause/2))
	}
	return 0, context.Cause(ctx)
}

func (s *recordBuilder) claimed(a *attempt, queued uint64, at time.Time) (e bus.Entry, nonce string, err error) {
	nonce = s.nonce()
	body, err := run.Claim{
		V: s.version(a), SessionID: a.SessionID, RunnerID: s.runner, Instance: s.instance, Nonce: nonce,
		Attempt: a.Attempt, At: at.UTC(), SignsEvents: true, Queued: queued,
	}.Encode()
	return bus.Entry{Subject: subject.Claimed(a.partition, a.ID, a.Key), Body: body}, nonce, err
}

func (s *recordBuilder) binding(a *attempt, model string) (bus.Entry, error) {
	r := run.Bound{V: s.version(a), SessionID: a.SessionID, RunnerID: s.runner, Attempt: a.Attempt,
		ExecutorSessionID: model, At: time.Now().UTC()}
	r.Profile = s.profile.Name                                         // no other executor understands the id
	if !runnerapi.IsStatePointer(model) && !s.profile.ResumeAnywhere { // only this host has the session
		r.Hostname = s.host
	}
	body, err := strictjson.Encode(r)
	return bus.Entry{Subject: subject.Bound(a.partition, a.ID, a.Key), Body: body}, err
}

// ended builds the end record. returned: the run is given back. A result too large for the record is stored first; if
// that fails, the run fails.
func (s *recordBuilder) ended(a *attempt, o run.Outcome, events uint64,
	started *time.Time, returned bool) (e bus.Entry, r run.Ended, err error) {
	r = run.Ended{
		V: s.version(a), SessionID: a.SessionID, RunnerID: s.runner, Nonce: s.nonce(), Attempt: a.Attempt,
		Status: o.Status, Error: o.Error, Result: o.Result,
		Events: events, Returned: returned, StartedAt: started, At: time.Now().UTC(),
	}
	if r.Error != nil && len(r.Error.Message) > maxMessage {
		short := *r.Error
		short.Message = string(process.Cut([]byte(short.Message), maxMessage))
		r.Error = &short
	}
	if r.Result != nil && resultSize(r.Result) > run.MaxInline/6 { // JSON escapes may make it too large
		s.storeResult(a, &r)
	}
	body, err := r.Encode()
	if err != nil { // the result is not valid JSON
		r.Status, r.Result, r.Body = run.Failed, nil, nil
		r.Error = fault.New(fault.Internal, "result_unreadable", "the executor's result is not valid JSON")
		body, err = r.Encode()
	}
	if len(body) > maxRecord {
		r.Error = fault.New(fault.Internal, cmp.Or(codeOf(r.Error), run.CodeTooLarge),
			"the end record of the run is too large")
		r.Status, r.Result = run.Failed, nil
		body, err = r.Encode()
	}
	return bus.Entry{Subject: subject.Ended(a.partition, a.ID, a.Key), Body: body}, r, err
}

func codeOf(f *fault.Fault) string {
	if f == nil {
		return ""
	}
	return f.Code
}

func resultSize(r *run.Result) int {
	n := len(r.Data) + len(r.SchemaValidation)
	for _, s := range []*string{r.Text, r.RawOutput} {
		if s != nil {
			n += len(*s)
		}
	}
	return n
}

// storeResult replaces a result that is too large for a record by a reference. If it cannot be stored, the run fails;
// a run that failed already reports it in its error's field result_lost.
func (s *recordBuilder) storeResult(a *attempt, r *run.Ended) {
	raw, err := strictjson.Encode(r.Result)
	if err != nil || len(raw) <= run.MaxInline {
		return
	}
	var refusal *fault.Fault
	if int64(len(raw)) > s.maxResult {
		refusal = fault.Newf(fault.TooLarge, "the result has %d bytes, at most %d are kept (AO_MAX_PAYLOAD)", len(raw),
			s.maxResult)
	} else {
		r.Body, err = s.payloads.store(a.recordCtx, a, fmt.Sprintf("%s.%d.out", a.ID, a.Attempt), raw)
		if err != nil {
			refusal = fault.Of(err)
		}
	}
	r.Result = nil
	switch {
	case refusal == nil:
	case r.Status == run.Completed:
		r.Status = run.Failed
		code := "result_not_stored"
		if refusal.Kind == fault.TooLarge {
			code = run.CodeTooLarge
		}
		r.Error = fault.New(fault.TooLarge, code, refusal.Message).With("size", len(raw)).With("limit", s.maxResult)
	case r.Error != nil:
		own := *r.Error
		own.Fields = append(own.Fields[:len(own.Fields):len(own.Fields)],
			fault.Field{Name: "result_lost", Value: refusal.Message})
		r.Error = &own
	}
}
