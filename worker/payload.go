package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/clock"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/shared/strictjson"
)

// maxInput is the largest input to fetch, in bytes, whatever a record says.
const maxInput = 1 << 30

// payloads fetches and stores what is too large for a record.
type payloads struct {
	bus      *bus.Bus
	log      *slog.Logger
	hardStop context.Context // ends when the worker waits for nothing any more
	noRoom   time.Duration   // how long a part is retried for which there is no room
}

// loadInput fetches an input that is too large for the queue message, before the claim. An error means a retry: the
// run is redelivered. If the input can never be read, the attempt is claimed and fails, which users see.
func (b *payloads) loadInput(a *attempt) error {
	if a.Body == nil {
		return nil
	}
	var err error
	for try := range 3 {
		if try > 0 {
			clock.Sleep(b.hardStop, 200*time.Millisecond)
		}
		ctx, cancel := context.WithTimeout(b.hardStop, 20*time.Second)
		err = b.fetchInput(ctx, a)
		cancel()
		if err == nil || fault.KindOf(err) == fault.Unavailable {
			return err
		}
	}
	b.log.Error("the run's input is unreadable", "run", a, "err", err)
	a.inputErr = fault.New(fault.Internal, "payload_unavailable", "the run's input could not be read: "+
		fault.Of(err).Message)
	return nil
}

// fetchInput fetches the parts and replaces the reference by the input.
func (b *payloads) fetchInput(ctx context.Context, a *attempt) error {
	whole, err := b.fetchAll(ctx, a, *a.Body)
	if err != nil {
		return err
	}
	var in run.Input
	if err := json.Unmarshal(whole, &in); err != nil {
		return fault.Wrap(fault.Invalid, "", "the parts are not an input document", err)
	}
	a.Input, a.Body = &in, nil
	return nil
}

func (b *payloads) fetchAll(ctx context.Context, a *attempt, p run.Payload) ([]byte, error) {
	if p.Size < 0 || p.Size > maxInput || int64(p.Parts) > p.Size/run.PartSize+1 {
		return nil, fault.Newf(fault.Invalid, "%d parts cannot hold a payload of %d bytes", p.Parts, p.Size)
	}
	whole := make([]byte, 0, p.Size)
	for n := range p.Parts {
		body, err := b.request(ctx, a, runnerapi.OpGetPart, run.Payload{Name: p.Name, Parts: n}, nil)
		if err != nil {
			return nil, fmt.Errorf("part %d of %d: %w", n, p.Parts, err)
		}
		whole = append(whole, body...)
	}
	if sum := sha256.Sum256(whole); int64(len(whole)) != p.Size || hex.EncodeToString(sum[:]) != p.SHA256 {
		return nil, fault.New(fault.Invalid, "", "the parts differ from what was stored (size or SHA-256)")
	}
	return whole, nil
}

// store stores a body part by part, until all are stored, a coordinator has refused for too long, or ctx ends. Storing
// a part twice is harmless.
func (b *payloads) store(ctx context.Context, a *attempt, name string, raw []byte) (*run.Payload, error) {
	sum := sha256.Sum256(raw)
	p := &run.Payload{Name: name, Size: int64(len(raw)), SHA256: hex.EncodeToString(sum[:])}
	for rest := raw; len(rest) > 0; p.Parts++ {
		n := min(len(rest), run.PartSize)
		if err := b.storePart(ctx, a, *p, rest[:n]); err != nil {
			return nil, err
		}
		rest = rest[n:]
	}
	return p, nil
}

// How long a part is retried. Where there is no room, it may come soon: inputs of ended runs are removed. Coordinators
// that answer nothing else than that they cannot store hold the run's slot for so long at most.
const (
	noRoomTimeout  = 30 * time.Second
	refusedTimeout = 10 * time.Minute
)

// storePart stores the next part of p.
func (b *payloads) storePart(wanted context.Context, a *attempt, p run.Payload, body []byte) error {
	final, since := 0, time.Now()
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		ctx, cancel := context.WithTimeout(wanted, 10*time.Second)
		_, err := b.request(ctx, a, runnerapi.OpPutPart, p, body)
		cancel()
		if err == nil {
			return nil
		}
		limit := refusedTimeout
		switch f, _ := errors.AsType[*fault.Fault](err); {
		case f != nil && (f.Code == run.CodePayloadsFull || f.Code == run.CodePayloadShare):
			limit = b.noRoom
		case fault.KindOf(err) != fault.Unavailable:
			final++
		case errors.Unwrap(err) != nil: // no coordinator has answered; its result is kept for one that does
			since = time.Now()
		}
		if final == 3 || time.Since(since) > limit || !clock.Sleep(wanted, pause) {
			return err
		}
		b.log.Warn("part of a result or state not stored yet, retrying", "run", a, "part", p.Parts, "err", err)
	}
}

// request gets a part from a coordinator, or stores one: the one after those that p has.
func (b *payloads) request(ctx context.Context, a *attempt, op string, p run.Payload, body []byte) ([]byte, error) {
	ask, err := strictjson.Encode(runnerapi.PartRequest{RunID: a.ID, SessionID: a.SessionID, Attempt: a.Attempt,
		Key: a.Key, Name: p.Name, Part: p.Parts, Size: p.Size, Body: body})
	if err != nil {
		return nil, err
	}
	return b.bus.Request(ctx, subject.RunnerAPI(op), ask)
}
