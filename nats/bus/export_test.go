package bus

import "time"

// Disbelieve sets how long a cluster must say that records are lost until it is believed.
func (b *Bus) Disbelieve(d time.Duration) { b.disbelief = d }
