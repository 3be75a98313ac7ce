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

// margin is how much must be free before the server is started anew: a twentieth of the disk, 16 MiB at least and 256 MiB at most.
func margin(r disk.Room) uint64 { return max(16<<20, min(r.All/20, 256<<20)) }

// Room is how full the disk under the server is.
func (s *Server) Room() (disk.Room, error) { return disk.RoomOf(s.dir) }

// MaxStore is how many bytes the server stores at most.
func (s *Server) MaxStore() uint64 {
	js := s.ns.Load().JetStreamConfig()
	if js == nil {
		return 0
	}
	return uint64(max(js.MaxStore, 0))
}

// storeFor is how many bytes a server on that folder is to store at most; 0: the server's own guess.
func storeFor(dir string) int64 {
	f, err := disk.FolderOf(dir)
	if err != nil {
		return 0
	}
	return f.Store(1)
}

// Disk says what keeps the server from writing; nil: nothing, as far as is known. A server that could not write once writes no more,
// until it is started anew, which happens by itself once there is room.
func (s *Server) Disk() error {
	if err := s.sick.Load(); err != nil {
		return *err
	}
	return nil
}

// How often the server is looked at, and how long it is left alone after it was started anew: twice as long each time that it could
// not write soon again.
const (
	lookEvery = 500 * time.Millisecond
	firstRest = 10 * time.Second
	lastRest  = 5 * time.Minute
)

// watch starts a server that cannot write anew, as soon as there is room for it.
func (s *Server) watch() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var r rest
	for {
		select {
		case <-s.end:
			return
		case <-tick.C:
		}
		s.staging.tend()
		s.anew.Lock()
		why := unwritten(s.ns.Load())
		s.tell(why)
		if why != "" && r.over(time.Now()) && s.roomy() == nil {
			began := time.Now()
			s.restart()
			r.started(began, time.Now())
		}
		s.anew.Unlock()
	}
}

// rest is how long a server is left alone after a start, whether that succeeded or failed.
type rest struct {
	last  time.Time // when the last start was over, which may itself take minutes
	pause time.Duration
}

func (r *rest) over(now time.Time) bool { return now.Sub(r.last) >= r.pause }

// started notes a start: soon after the one before, the next waits twice as long.
func (r *rest) started(began, ended time.Time) {
	if r.pause == 0 || began.Sub(r.last) > 2*lastRest {
		r.pause = firstRest
	} else {
		r.pause = min(2*r.pause, lastRest)
	}
	r.last = ended
}

// restart ends the server and starts it anew on the same files: every connection comes back as after a crash.
func (s *Server) restart() {
	s.log.log.Warn("the disk has room: NATS in this process is started anew, since it does not write any more", "dir", s.dir)
	s.stop()
	if err := s.launch(); err != nil {
		s.log.log.Error("NATS in this process did not start; trying again", "err", err)
		return
	}
	s.log.log.Info("NATS in this process was started anew", "dir", s.dir)
	s.tell(unwritten(s.ns.Load()))
}

// tell notes how the server is, and says in the log when that has changed.
func (s *Server) tell(why string) {
	if why == "" {
		s.sick.Store(nil)
		return
	}
	room, err := s.Room()
	said := fmt.Errorf("its disk has failed (%s)", strings.TrimSpace(why[strings.LastIndex(why, ":")+1:]))
	if err == nil && room.Free < margin(room) {
		said = fmt.Errorf("its disk is full (%d MiB free of %d MiB, %d MiB are needed)", room.Free>>20, room.All>>20, margin(room)>>20)
	}
	if s.sick.Swap(&said) == nil {
		s.log.log.Error("NATS in this process writes no more: make room, and it is started anew by itself", "dir", s.dir, "free", room.Free, "needed", margin(room), "err", why)
	}
}

// unwritten says which error a stream of the server met when it was written to; empty: none.
func unwritten(ns *server.Server) string {
	if !ns.JetStreamEnabled() {
		return "JetStream is off"
	}
	for _, e := range ns.Healthz(&server.HealthzOptions{Details: true}).Errors {
		if strings.Contains(e.Error, "write error") {
			return e.Error
		}
	}
	return ""
}

// roomy is nil where the disk takes what a start may need, and the start would not end as the last one did.
func (s *Server) roomy() error {
	room, err := s.Room()
	if err != nil {
		return err
	}
	if room.All > 0 && room.Free < margin(room) {
		return errors.New("there is no room")
	}
	f, err := os.CreateTemp(s.dir, "room-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(make([]byte, 1<<20))
	return errors.Join(err, f.Sync(), f.Close())
}
