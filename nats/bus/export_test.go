package bus

import (
	"context"
	"time"
)

// Disbelieve sets how long a cluster must say that records are lost until it is believed.
func (b *Bus) Disbelieve(d time.Duration) { b.suspectTimeout = d }

// Judge says why a stream is not written to, as who examines it does.
func (b *Bus) Judge(ctx context.Context, stream string) error { return b.sinks[stream].diagnose(ctx) }

// Prompt is how soon a server answers that is not overloaded.
const Prompt = promptReply
