// Package disk knows the disk under a NATS server: how full it is, and how much a server on it is to store at most.
package disk

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Room is how full a file system is.
type Room struct {
	Dir       string
	Free, All uint64 // bytes; All 0: it does not say
	Memory    bool   // it is no disk: what lies there goes when the power does
}

// tmpfs is the number of Linux's file system in memory.
const tmpfs = 0x01021994

// RoomOf looks how full the file system is on which a folder lies.
func RoomOf(dir string) (Room, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return Room{Dir: dir}, err
	}
	return Room{dir, uint64(s.Bavail) * uint64(s.Bsize), uint64(s.Blocks) * uint64(s.Bsize), s.Type == tmpfs}, nil
}

// SizeOf is how many bytes the files below a folder hold.
func SizeOf(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil // it went meanwhile
		}
		if i, err := e.Info(); err == nil {
			bytes += i.Size()
		}
		return nil
	})
	return bytes
}

// Batches is where a single server on a data folder puts the batches of a stream aside until it commits them.
func Batches(store, account, stream string) string {
	return filepath.Join(store, "jetstream", account, "streams", stream, "batches")
}

// Folder is where a NATS server keeps its streams.
type Folder struct {
	Room
	Has    int64  // bytes of all its files
	Limits int64  // bytes that its streams may hold in all
	Device uint64 // the same number: the same file system
}

// FolderOf looks at the folder of a server, which may be running, stopped or still to come.
func FolderOf(dir string) (Folder, error) {
	f := Folder{}
	var s syscall.Stat_t
	if err := syscall.Stat(dir, &s); err != nil {
		return f, &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	f.Device = uint64(s.Dev)
	var err error
	if f.Room, err = RoomOf(dir); err != nil {
		return f, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil // it went meanwhile
		}
		if i, err := e.Info(); err == nil {
			f.Has += i.Size()
		}
		if e.Name() == "meta.inf" && filepath.Base(filepath.Dir(filepath.Dir(path))) == "streams" {
			f.Limits += limitOf(path)
		}
		return nil
	})
	return f, nil
}

// Store is how many bytes the server is to store at most: what it has, three quarters of what is free besides, and never less than its
// streams may hold. What a server takes by itself would shrink with each restart on a disk that gets full, until it refused everything.
// So many servers share the disk; 0: it does not say how large it is.
func (f Folder) Store(sharing int) int64 {
	if f.All == 0 {
		return 0
	}
	return max(f.Has+int64(f.Free/4*3)/int64(sharing), f.Limits)
}

// Fits tells whether a server may store so much: its streams' limits are within it, and it is within its part of the disk.
func (f Folder) Fits(store int64, sharing int) bool {
	return store >= f.Limits && store <= f.Has+int64(f.Free)/int64(sharing)
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
