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

// maxAge is the greatest age of a healthy worker's health file, which is written each second.
const maxAge = 10 * time.Second

// writeHealth writes the file each second while a coordinator answers the heartbeats of every runner of this process.
// Its age reveals a worker that hangs, is not answered, or is not registered.
func writeHealth(ctx context.Context, file string, all []*worker.Worker, log *slog.Logger) {
	defer os.Remove(file)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	logged := false
	for {
		if why := unhealthy(all, time.Now()); why == "" {
			err := replaceFile(file, "every runner's heartbeats are answered\n", time.Now())
			if err != nil && !logged {
				log.Warn("cannot write the health file (AO_HEALTH_FILE)", "err", err)
			}
			logged = err != nil
		} else {
			_ = replaceFile(file, why+"\n", time.Unix(0, 0)) // oldest possible, so it counts as unhealthy
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// replaceFile replaces a file, which is never a link that a run's program put there. changed is its time.
func replaceFile(file, text string, changed time.Time) error {
	temporary := file + ".new"
	_ = os.Remove(temporary)
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close(), os.Chtimes(temporary, changed, changed)); err != nil {
		return err
	}
	return os.Rename(temporary, file)
}

// unhealthy returns which runner's heartbeats are not answered; empty: none.
func unhealthy(all []*worker.Worker, now time.Time) string {
	for _, w := range all {
		switch at := w.LastHeartbeat(); {
		case at.IsZero():
			return fmt.Sprintf("runner %s of profile %s is not registered yet, or no coordinator answers", w.ID(),
				w.Profile.Name)
		case now.Sub(at) > max(3*w.HeartbeatInterval(), maxAge):
			return fmt.Sprintf("runner %s of profile %s: its heartbeats are not answered since %s", w.ID(),
				w.Profile.Name, at.UTC().Format(time.RFC3339))
		}
	}
	return ""
}

// Health checks the health file of a worker; the error says what is wrong.
func Health(file string, now time.Time) error {
	if file == "" {
		return errors.New("AO_HEALTH_FILE is not set; set it here and for the worker, for example " +
			"AO_HEALTH_FILE=/tmp/ao-worker-health")
	}
	info, err := os.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s does not exist: no worker runs with this AO_HEALTH_FILE", file)
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file: a worker writes one", file)
	}
	if age := now.Sub(info.ModTime()); age > maxAge {
		why, err := os.ReadFile(file)
		if err != nil || info.ModTime().Unix() != 0 {
			return fmt.Errorf("%s was last written %s ago: the worker hangs or was killed", file,
				age.Round(time.Second))
		}
		return fmt.Errorf("%s", why)
	}
	return nil
}
