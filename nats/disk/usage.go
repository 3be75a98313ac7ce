// Package disk reports how full the disk under a NATS server is, and how much the server may store.
package disk

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Usage is how full a file system is.
type Usage struct {
	Dir         string
	Free, Total uint64 // bytes; Total is 0 if the file system does not report it
	Memory      bool   // it is in memory: its content is lost without power
}

// tmpfs is the number of Linux's file system in memory.
const tmpfs = 0x01021994

// UsageOf returns the usage of the file system that holds a folder.
func UsageOf(dir string) (Usage, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return Usage{Dir: dir}, err
	}
	return Usage{dir, uint64(s.Bavail) * uint64(s.Bsize), uint64(s.Blocks) * uint64(s.Bsize), s.Type == tmpfs}, nil
}

// SizeOf returns the size of all files below a folder.
func SizeOf(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil // the file is gone
		}
		if i, err := e.Info(); err == nil {
			bytes += i.Size()
		}
		return nil
	})
	return bytes
}

// Batches returns the folder in which a single server stages a stream's batches before it commits them.
func Batches(store, account, stream string) string {
	return filepath.Join(store, "jetstream", account, "streams", stream, "batches")
}

// StoreUsage is the usage of the folder in which a NATS server keeps its streams.
type StoreUsage struct {
	Usage
	Used     int64  // bytes of all its files
	Reserved int64  // bytes that its streams may hold in all
	Device   uint64 // equal for folders on the same file system
}

// StoreUsageOf reads the folder of a server, which may be running, stopped or new.
func StoreUsageOf(dir string) (StoreUsage, error) {
	f := StoreUsage{}
	var s syscall.Stat_t
	if err := syscall.Stat(dir, &s); err != nil {
		return f, &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	f.Device = uint64(s.Dev)
	var err error
	f.Usage, err = UsageOf(dir)
	if err != nil {
		return f, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil // the file is gone
		}
		if i, err := e.Info(); err == nil {
			f.Used += i.Size()
		}
		if e.Name() == "meta.inf" && filepath.Base(filepath.Dir(filepath.Dir(path))) == "streams" {
			f.Reserved += limitOf(path)
		}
		return nil
	})
	return f, nil
}

// MaxStore returns the number of bytes that the server may store: what it has and three quarters of the free space. It
// is never less than its streams may hold. The server's own default would shrink with each restart on a filling disk
// until it refuses everything. sharing is the number of servers on the disk. 0: the disk's size is unknown.
func (f StoreUsage) MaxStore(sharing int) int64 {
	if f.Total == 0 {
		return 0
	}
	return max(f.Used+int64(f.Free/4*3)/int64(sharing), f.Reserved)
}

// Fits reports whether the server may store so much: at least its streams' limits, at most its share of the disk.
func (f StoreUsage) Fits(store int64, sharing int) bool {
	return store >= f.Reserved && store <= f.Used+int64(f.Free)/int64(sharing)
}

// limitOf returns the number of bytes a stream may hold, by the server's own file; 0: no limit.
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
