package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// hugest is the largest input that is fetched, whatever a record says, in bytes.
const hugest = 1 << 30

// bodies fetches and stores what is too large for a record, for the attempts that may.
type bodies struct {
	bus  *bus.Bus
	log  *slog.Logger
	dead context.Context // ends when nothing is waited for any more
}

// load fetches an input that is too large for the queue message, before the claim: while it cannot be fetched the run
// comes again, here or elsewhere (the error), and nothing has begun. What can never be read begins and fails, visibly.
func (b *bodies) load(a *attempt) error {
	if a.Body == nil {
		return nil
	}
	var err error
	for try := range 3 {
		if try > 0 {
			wait(b.dead, 200*time.Millisecond)
		}
		ctx, cancel := context.WithTimeout(b.dead, 20*time.Second)
		err = b.fetch(ctx, a)
		cancel()
		if err == nil || fault.KindOf(err) == fault.Unavailable {
			return err
		}
	}
	b.log.Error("the run's input cannot be read", "run", a, "err", err)
	a.unread = fault.New(fault.Internal, "payload_unavailable", "The run's input could not be read: "+fault.Of(err).Message)
	return nil
}

// fetch reads the parts and puts them in the place of the reference.
func (b *bodies) fetch(ctx context.Context, a *attempt) error {
	whole, err := b.whole(ctx, a, *a.Body)
	if err != nil {
		return err
	}
	var in run.Input
	if err := json.Unmarshal(whole, &in); err != nil {
		return fault.Wrap(fault.Invalid, "", "its parts are no input", err)
	}
	a.Input, a.Body = &in, nil
	return nil
}

// whole reads all parts of a payload.
func (b *bodies) whole(ctx context.Context, a *attempt, p run.Payload) ([]byte, error) {
	if p.Size < 0 || p.Size > hugest || int64(p.Parts) > p.Size/runnerapi.PartSize+1 {
		return nil, fault.Newf(fault.Invalid, "%d parts with %d bytes are no payload", p.Parts, p.Size)
	}
	whole := make([]byte, 0, p.Size)
	for n := range p.Parts {
		body, err := b.part(ctx, a, runnerapi.OpGetPart, p.Name, n, nil)
		if err != nil {
			return nil, fmt.Errorf("part %d of %d: %w", n, p.Parts, err)
		}
		whole = append(whole, body...)
	}
	if sum := sha256.Sum256(whole); int64(len(whole)) != p.Size || hex.EncodeToString(sum[:]) != p.SHA256 {
		return nil, fault.New(fault.Invalid, "", "its parts do not add up to what was stored (size or SHA-256 differ)")
	}
	return whole, nil
}

// store brings a result that is too large for a record to the coordinator. The error is final: a coordinator's no, or the end of
// the worker.
func (b *bodies) store(a *attempt, raw []byte) (*run.Payload, error) {
	return b.storeAs(a.wanted, a, fmt.Sprintf("%s.%d.out", a.ID, a.Attempt), raw)
}

// storeAs brings a body to the coordinator, part by part, until all are there or ctx ends. Putting a part twice is harmless.
func (b *bodies) storeAs(ctx context.Context, a *attempt, name string, raw []byte) (*run.Payload, error) {
	sum := sha256.Sum256(raw)
	p := &run.Payload{Name: name, Size: int64(len(raw)), SHA256: hex.EncodeToString(sum[:])}
	for rest := raw; len(rest) > 0; p.Parts++ {
		n := min(len(rest), runnerapi.PartSize)
		if err := b.storePart(ctx, a, p.Name, p.Parts, rest[:n]); err != nil {
			return nil, err
		}
		rest = rest[n:]
	}
	return p, nil
}

func (b *bodies) storePart(wanted context.Context, a *attempt, name string, n int, body []byte) error {
	final := 0
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		ctx, cancel := context.WithTimeout(wanted, 10*time.Second)
		_, err := b.part(ctx, a, runnerapi.OpPutPart, name, n, body)
		cancel()
		if err == nil {
			return nil
		}
		if fault.KindOf(err) != fault.Unavailable {
			final++
		}
		if final == 3 || !wait(wanted, pause) {
			return err
		}
		b.log.Warn("a part of a result or a state is not stored yet, trying again", "run", a, "part", n, "err", err)
	}
}

// part asks a coordinator for a part, or brings one.
func (b *bodies) part(ctx context.Context, a *attempt, op, name string, n int, body []byte) ([]byte, error) {
	ask, err := json.Marshal(runnerapi.PartRequest{RunID: a.ID, SessionID: a.SessionID, Attempt: a.Attempt, Key: a.Key, Name: name, Part: n, Body: body})
	if err != nil {
		return nil, err
	}
	return b.bus.Request(ctx, subject.RunnerAPI(op), ask)
}
