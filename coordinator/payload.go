package coordinator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/fleet"
	"ao/shared/run"
)

// putPayload stores a body as numbered parts under a name derived from its run; putting it twice is harmless.
func (c *Coordinator) putPayload(ctx context.Context, name string, raw []byte) (*run.Payload, error) {
	sum := sha256.Sum256(raw)
	ref := &run.Payload{Name: name, Size: int64(len(raw)), SHA256: hex.EncodeToString(sum[:])}
	for rest := raw; len(rest) > 0; ref.Parts++ {
		n := min(len(rest), fleet.PartSize)
		if err := c.bus.PutPart(ctx, name, ref.Parts, rest[:n]); err != nil {
			return nil, err
		}
		rest = rest[n:]
	}
	return ref, nil
}

// runOf is the run that a payload belongs to: <run>.<hash>.in, <run>.<attempt>.out.
func runOf(name string) string {
	id, _, _ := strings.Cut(name, ".")
	return id
}

// getPart hands a worker one part of a payload of the attempt it holds.
func (c *Coordinator) getPart(ctx context.Context, r fleet.PartRequest) ([]byte, error) {
	if err := c.mayTouch(r); err != nil {
		return nil, err
	}
	body, err := c.bus.GetPart(ctx, r.Name, r.Part)
	if errors.Is(err, bus.ErrNone) {
		return nil, fault.Wrap(fault.NotFound, "", "It is not kept any more, or it is damaged", err)
	}
	return body, err
}

// putPart takes one part of a result of the attempt that the worker holds.
func (c *Coordinator) putPart(ctx context.Context, r fleet.PartRequest) ([]byte, error) {
	if err := c.mayTouch(r); err != nil {
		return nil, err
	}
	if len(r.Body) > fleet.PartSize || int64(r.Part)*fleet.PartSize+int64(len(r.Body)) > c.MaxPayload {
		return nil, fault.Newf(fault.TooLarge, "a result may have %d bytes, in parts of %d (AO_MAX_PAYLOAD)", c.MaxPayload, fleet.PartSize)
	}
	return nil, c.bus.PutPart(ctx, r.Name, r.Part, r.Body)
}

// mayTouch: the key proves that the attempt was handed to who asks, and a payload's name begins with its run's id.
func (c *Coordinator) mayTouch(r fleet.PartRequest) error {
	if err := c.keys.check(r.RunID, r.Attempt, r.Key); err != nil {
		return err
	}
	if !strings.HasPrefix(r.Name, r.RunID+".") || r.Part < 0 {
		return fault.New(fault.Forbidden, "", "The payload belongs to another run")
	}
	return nil
}
