package embed

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Room is how full a file system is.
type Room struct {
	Dir       string
	Free, All uint64 // bytes; All 0: it does not say
}

// RoomOf looks how full the file system is on which a folder lies.
func RoomOf(dir string) (Room, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return Room{Dir: dir}, err
	}
	return Room{dir, uint64(s.Bavail) * uint64(s.Bsize), uint64(s.Blocks) * uint64(s.Bsize)}, nil
}

// margin is how much must be free before the server is started anew: a twentieth of the disk, 16 MiB at least and 256 MiB at most.
func (r Room) margin() uint64 { return max(16<<20, min(r.All/20, 256<<20)) }

// Room is how full the disk under the server is.
func (s *Server) Room() (Room, error) { return RoomOf(s.dir) }

// MaxStore is how many bytes the server stores at most.
func (s *Server) MaxStore() uint64 {
	js := s.ns.Load().JetStreamConfig()
	if js == nil {
		return 0
	}
	return uint64(max(js.MaxStore, 0))
}

// storeFor is how many bytes a server on that folder is to store at most: what it has, three quarters of what is free besides, and
// never less than its streams may hold. What the server takes by itself would shrink with each restart on a disk that gets full,
// until it refused everything.
func storeFor(dir string) int64 {
	room, err := RoomOf(dir)
	if err != nil || room.All == 0 {
		return 0 // the server's own guess
	}
	var has, limits int64
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil // it went meanwhile
		}
		if i, err := e.Info(); err == nil {
			has += i.Size()
		}
		if e.Name() == "meta.inf" && filepath.Base(filepath.Dir(filepath.Dir(path))) == "streams" {
			limits += limitOf(path)
		}
		return nil
	})
	return max(has+int64(room.Free/4*3), limits)
}

// limitOf is how many bytes a stream may hold, by the file that the server keeps of it; 0: as many as there is room for.
func limitOf(meta string) int64 {
	var stream struct {
		MaxBytes int64 `json:"max_bytes"`
	}
	text, err := os.ReadFile(meta)
	if err != nil || json.Unmarshal(text, &stream) != nil {
		return 0
	}
	return max(stream.MaxBytes, 0)
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
	var last time.Time // when it was started anew
	pause := firstRest
	for {
		select {
		case <-s.end:
			return
		case <-tick.C:
		}
		why := unwritten(s.ns.Load())
		s.tell(why)
		if why == "" || time.Since(last) < pause || s.roomy() != nil {
			continue
		}
		if time.Since(last) > 2*lastRest {
			pause = firstRest
		} else {
			pause = min(2*pause, lastRest)
		}
		last = time.Now()
		s.restart()
	}
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
	if err == nil && room.Free < room.margin() {
		said = fmt.Errorf("its disk is full (%d MiB free of %d MiB, %d MiB are needed)", room.Free>>20, room.All>>20, room.margin()>>20)
	}
	if s.sick.Swap(&said) == nil {
		s.log.log.Error("NATS in this process writes no more: make room, and it is started anew by itself", "dir", s.dir, "free", room.Free, "needed", room.margin(), "err", why)
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
	if room.All > 0 && room.Free < room.margin() {
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
