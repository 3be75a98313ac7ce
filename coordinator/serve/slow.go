package serve

import (
	"log/slog"
	"time"
)

// StillStarting is the message of the lines of log that say what a start of more than a second waits for.
const StillStarting = "still starting"

// tellSlow logs why a start goes on, until stop is called: after a second, and every five from then on.
func tellSlow(log *slog.Logger, why func() error) (stop func()) {
	ended := make(chan struct{})
	go func() {
		for wait := time.Second; ; wait = 5 * time.Second {
			select {
			case <-ended:
				return
			case <-time.After(wait):
				if err := why(); err != nil {
					log.Info(StillStarting, "why", err)
				}
			}
		}
	}()
	return func() { ended <- struct{}{} }
}
