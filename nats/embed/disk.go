package embed

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"ao/nats/disk"

	"github.com/nats-io/nats-server/v2/server"
)

// margin returns the free space needed for a restart: a twentieth of the disk, between 16 and 256 MiB.
func margin(r disk.Usage) uint64 { return max(16<<20, min(r.Total/20, 256<<20)) }

// DiskUsage returns the usage of the disk under the server.
func (s *Server) DiskUsage() (disk.Usage, error) { return disk.UsageOf(s.dir) }

// MaxStore returns the number of bytes the server may store.
func (s *Server) MaxStore() uint64 {
	js := s.ns.Load().JetStreamConfig()
	if js == nil {
		return 0
	}
	return uint64(max(js.MaxStore, 0))
}

// DiskError is what keeps the server from writing, and what ends that; nil: nothing, as far as is known. After a failed
// write the server writes no more until it restarts, which happens by itself once there is space.
func (s *Server) DiskError() error {
	if err := s.diskErr.Load(); err != nil {
		return *err
	}
	return nil
}

// How often the server is checked, and how long it is not restarted again. The pause doubles if the last
// restart did not help.
const (
	checkInterval   = 500 * time.Millisecond
	minRestartPause = 10 * time.Second
	maxRestartPause = 5 * time.Minute
)

// watch restarts a server that cannot write, once there is space.
func (s *Server) watch() {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	var r restartPause
	for {
		select {
		case <-s.closing:
			return
		case <-tick.C:
		}
		s.staging.update()
		s.restartLock.Lock()
		why := writeError(s.ns.Load())
		s.setDiskError(why)
		if why != "" && r.expired(time.Now()) && s.checkSpace() == nil {
			began := time.Now()
			s.restart()
			r.started(began, time.Now())
		}
		s.restartLock.Unlock()
	}
}

// restartPause is how long the server is not restarted after a restart, successful or not.
type restartPause struct {
	last  time.Time // end of the last restart, which may take minutes
	pause time.Duration
}

func (r *restartPause) expired(now time.Time) bool { return now.Sub(r.last) >= r.pause }

// started notes a restart. If it came soon after the one before, the next pause is twice as long.
func (r *restartPause) started(began, ended time.Time) {
	if r.pause == 0 || began.Sub(r.last) > 2*maxRestartPause {
		r.pause = minRestartPause
	} else {
		r.pause = min(2*r.pause, maxRestartPause)
	}
	r.last = ended
}

// restart stops the server and starts it again on the same files. Clients reconnect as after a crash.
func (s *Server) restart() {
	s.log.log.Warn("the disk has space again; restarting NATS in this process", "dir", s.dir)
	s.stop()
	if err := s.launch(); err != nil {
		s.log.log.Error("NATS in this process did not start, retrying", "err", err)
		return
	}
	s.log.log.Info("NATS in this process was restarted", "dir", s.dir)
	s.setDiskError(writeError(s.ns.Load()))
}

// setDiskError notes the server's state, and logs a change.
func (s *Server) setDiskError(why string) {
	if why == "" {
		s.diskErr.Store(nil)
		return
	}
	usage, err := s.DiskUsage()
	cause := fmt.Errorf("its disk has failed (%s); it continues once the disk can be written",
		strings.TrimSpace(why[strings.LastIndex(why, ":")+1:]))
	if err == nil && usage.Free < margin(usage) {
		cause = fmt.Errorf("its disk is full (%d MiB free of %d MiB, %d MiB are needed); it continues once there is "+
			"space", usage.Free>>20, usage.Total>>20, margin(usage)>>20)
	}
	if s.diskErr.Swap(&cause) == nil {
		s.log.log.Error("NATS in this process has stopped writing: "+cause.Error(), "dir", s.dir, "free", usage.Free,
			"needed", margin(usage), "err", why)
	}
}

// writeError returns the error of a stream's failed write; empty: none. If the write failed because an older value of
// its key cannot be read, the disk is not the cause, and no restart mends it. Other keys are written.
func writeError(ns *server.Server) string {
	if !ns.JetStreamEnabled() {
		return "JetStream is off"
	}
	for _, e := range ns.Healthz(&server.HealthzOptions{Details: true}).Errors {
		if strings.Contains(e.Error, "write error") && !strings.Contains(e.Error, "corrupt message") {
			return e.Error
		}
	}
	return ""
}

// checkSpace is nil if the disk has the space a restart may need, so that it would not fail as before.
func (s *Server) checkSpace() error {
	usage, err := s.DiskUsage()
	if err != nil {
		return err
	}
	if usage.Total > 0 && usage.Free < margin(usage) {
		return errors.New("there is no space")
	}
	f, err := os.CreateTemp(s.dir, "room-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(make([]byte, 1<<20))
	return errors.Join(err, f.Sync(), f.Close())
}
