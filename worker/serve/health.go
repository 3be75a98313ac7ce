package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"ao/worker"
)

// stale is how old the health file of a worker that is well can be: it is written each second.
const stale = 10 * time.Second

// tell writes the file each second while every runner of the process was answered within three of its heartbeats, and no longer: who looks at
// its age sees a worker that hangs, one that no coordinator answers, and one that is not registered.
func tell(ctx context.Context, file string, all []*worker.Worker, log *slog.Logger) {
	defer os.Remove(file)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	said := false
	for {
		if why := ill(all, time.Now()); why == "" {
			err := os.WriteFile(file, []byte("every runner is answered\n"), 0o644)
			if err != nil && !said {
				log.Warn("the health file cannot be written (AO_HEALTH_FILE)", "err", err)
			}
			said = err != nil
		} else if err := os.WriteFile(file+".why", []byte(why+"\n"), 0o644); err == nil {
			_ = os.Rename(file+".why", file)
			_ = os.Chtimes(file, time.Time{}, time.Unix(0, 0)) // it is as old as can be, and says why
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// ill says which runner is not answered; empty: all are.
func ill(all []*worker.Worker, now time.Time) string {
	for _, w := range all {
		switch at := w.LastHeartbeat(); {
		case at.IsZero():
			return fmt.Sprintf("runner %s of profile %s is not registered yet, or no coordinator answers", w.ID(), w.Profile.Name)
		case now.Sub(at) > max(3*w.HeartbeatInterval(), stale):
			return fmt.Sprintf("runner %s of profile %s: its heartbeats are not answered since %s", w.ID(), w.Profile.Name, at.UTC().Format(time.RFC3339))
		}
	}
	return ""
}

// Health tells by its file whether a worker is well; the error says what is wrong.
func Health(file string, now time.Time) error {
	if file == "" {
		return errors.New("AO_HEALTH_FILE is not set, here and for the worker: where does it write? for example AO_HEALTH_FILE=/tmp/ao-worker-health")
	}
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no %s: no worker runs with this AO_HEALTH_FILE", file)
	}
	if err != nil {
		return err
	}
	if age := now.Sub(info.ModTime()); age > stale {
		why, err := os.ReadFile(file)
		if err != nil || info.ModTime().Unix() != 0 {
			return fmt.Errorf("%s was last written %s ago: the worker hangs, or was killed", file, age.Round(time.Second))
		}
		return fmt.Errorf("%s", why)
	}
	return nil
}
