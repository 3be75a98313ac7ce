package coordinator

import (
	"context"
	"time"

	"ao/shared/fault"
)

// lookForRoom looks how full the history is. From nine tenths on no new runs are taken, so that claims and ends always fit (design
// section 3): a full stream takes neither.
func (c *Coordinator) lookForRoom(ctx context.Context) error {
	_ = c.bus.CheckStorage(ctx) // told by Ready, and to whoever writes
	s, err := c.bus.State(ctx)
	if err != nil {
		return nil // whoever writes hears of it
	}
	full := s.MaxBytes > 0 && int64(s.Bytes) >= s.MaxBytes/10*9
	switch {
	case c.full.Swap(full) == full:
	case full:
		c.log.Error("the history is nine tenths full: new runs are refused until there is room", "stream", "RUNS", "bytes", s.Bytes, "max_bytes", s.MaxBytes)
	default:
		c.log.Info("the history has room again", "bytes", s.Bytes, "max_bytes", s.MaxBytes)
	}
	return nil
}

// room refuses what would fill the history.
func (c *Coordinator) room() error {
	if !c.full.Load() {
		return nil
	}
	return fault.New(fault.Unavailable, "", "The history is nine tenths full, and what has begun needs the rest; raise max_bytes of the stream RUNS, or keep fewer runs (RUN_KEEP, RUN_RETENTION)").After(30 * time.Second)
}
