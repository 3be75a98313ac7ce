package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/shared/strictjson"
	"ao/worker/process"
	"ao/worker/profile"
)

// maxInline is the largest result that a record carries itself, in bytes; larger ones go as parts.
const maxInline = 256 << 10

// maxMessage is the longest message of an error that a record carries, in bytes.
const maxMessage = 32 << 10

// maxRecord is the largest record that fits into a message, in bytes.
const maxRecord = 900 << 10

// records makes what this runner appends of its attempts.
type records struct {
	runner   string // its id
	instance string // of this process
	host     string
	profile  *profile.Profile
	newest   int        // the newest version that this program writes
	allowed  func() int // the newest that all coordinators read
	most     int64      // bytes of a result
	bodies   *bodies

	nonces atomic.Uint64
}

// nonce is random per process and different per append: it tells an own record from another's.
func (s *records) nonce() string { return fmt.Sprintf("%s.%d", s.instance, s.nonces.Add(1)) }

// version is that of an attempt's records: what the attempt allows, and what all coordinators read that are online now.
func (s *records) version(a *attempt) int { return min(s.newest, s.allowed(), a.MostVersion()) }

// mine says whether a record that was read back has this nonce.
func mine(nonce string) func([]byte) bool {
	return func(body []byte) bool {
		var r struct {
			Nonce string `json:"nonce"`
		}
		return json.Unmarshal(body, &r) == nil && r.Nonce == nonce
	}
}

// insist appends a record until it stands or another does, which is bus.ErrTaken. Else nobody wants it any more, and the error is
// why ctx ended. failed hears of each try that nobody knows the end of.
func insist(ctx context.Context, b *bus.Bus, e bus.Entry, own func([]byte) bool, failed func(try int, err error)) (seq uint64, err error) {
	for try, pause := 1, 100*time.Millisecond; ctx.Err() == nil; try, pause = try+1, min(2*pause, 2*time.Second) {
		if seq, err = b.AppendAndVerify(ctx, e, own); err == nil || errors.Is(err, bus.ErrTaken) {
			return seq, err
		}
		failed(try, err)
		wait(ctx, pause/2+rand.N(pause/2))
	}
	return 0, context.Cause(ctx)
}

// claimed makes the record of a claim.
func (s *records) claimed(a *attempt, at time.Time) (e bus.Entry, nonce string, err error) {
	nonce = s.nonce()
	body, err := run.Claim{
		V: s.version(a), SessionID: a.SessionID, RunnerID: s.runner, Instance: s.instance, Nonce: nonce, Attempt: a.Attempt, At: at.UTC(), Proves: true,
	}.Encode()
	return bus.Entry{Subject: subject.Claimed(a.partition, a.ID, a.Key), Body: body}, nonce, err
}

// bound makes the record of what an attempt's executor bound.
func (s *records) bound(a *attempt, model string) (bus.Entry, error) {
	r := run.Bound{V: s.version(a), SessionID: a.SessionID, RunnerID: s.runner, Attempt: a.Attempt, Model: model, At: time.Now().UTC()}
	r.Profile = s.profile.Name                                         // another executor would not know what that is
	if !runnerapi.IsStatePointer(model) && !s.profile.ResumeAnywhere { // the model side has it, here
		r.Hostname = s.host
	}
	body, err := strictjson.Encode(r)
	return bus.Entry{Subject: subject.Bound(a.partition, a.ID, a.Key), Body: body}, err
}

// ended makes the record of the last word. A result that is too large for it is stored first; where it cannot be, the run failed.
func (s *records) ended(a *attempt, o run.Outcome, events uint64, started *time.Time) (e bus.Entry, r run.Ended, err error) {
	r = run.Ended{
		V: s.version(a), SessionID: a.SessionID, RunnerID: s.runner, Nonce: s.nonce(), Attempt: a.Attempt, Status: o.Status, Error: o.Error, Result: o.Result,
		Events: events, StartedAt: started, At: time.Now().UTC(),
	}
	if r.Error != nil && len(r.Error.Message) > maxMessage {
		short := *r.Error
		short.Message = string(process.Cut([]byte(short.Message), maxMessage))
		r.Error = &short
	}
	if r.Result != nil && size(r.Result) > maxInline/6 { // with its escapes it may be too large: look
		s.outsource(a, &r)
	}
	body, err := r.Encode()
	if err != nil { // a result that is no JSON
		r.Status, r.Result, r.Body = run.Failed, nil, nil
		r.Error = fault.New(fault.Internal, "result_unreadable", "The executor's result is not valid JSON")
		body, err = r.Encode()
	}
	if len(body) > maxRecord {
		r.Error = fault.New(fault.Internal, cmp.Or(codeOf(r.Error), "result_too_large"), "The end of the run is too large to be told")
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

func size(r *run.Result) int {
	n := len(r.Data) + len(r.SchemaValidation)
	for _, s := range []*string{r.Text, r.RawOutput} {
		if s != nil {
			n += len(*s)
		}
	}
	return n
}

// outsource puts a reference in the place of a result that is too large for a record. One that nobody takes is
// refused: a run fails by that, one that failed anyhow says it beside its own error.
func (s *records) outsource(a *attempt, r *run.Ended) {
	raw, err := strictjson.Encode(r.Result)
	if err != nil || len(raw) <= maxInline {
		return
	}
	var no *fault.Fault
	if int64(len(raw)) > s.most {
		no = fault.Newf(fault.TooLarge, "The result has %d bytes; at most %d are kept (AO_MAX_PAYLOAD)", len(raw), s.most)
	} else if r.Body, err = s.bodies.store(a, raw); err != nil {
		no = fault.Of(err)
	}
	r.Result = nil
	switch {
	case no == nil:
	case r.Status == run.Completed:
		r.Status = run.Failed
		code := "result_not_stored"
		if no.Kind == fault.TooLarge {
			code = "result_too_large"
		}
		r.Error = fault.New(fault.TooLarge, code, no.Message).With("size", len(raw)).With("limit", s.most)
	case r.Error != nil:
		own := *r.Error
		own.Fields = append(own.Fields[:len(own.Fields):len(own.Fields)], fault.Field{Name: "result_lost", Value: no.Message})
		r.Error = &own
	}
}
