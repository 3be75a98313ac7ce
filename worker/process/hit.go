package process

import (
	"bytes"
	"fmt"
	"syscall"

	"ao/shared/fault"
)

// signs are what programs say, in whatever case, when the kernel refuses them more of something.
var signs = []struct {
	name  string
	words []string
}{
	{"cpu_seconds", []string{"cpu time limit exceeded"}},
	{"file_mb", []string{"file too large", "file size limit exceeded", "efbig"}},
	{"open_files", []string{"too many open files", "emfile", "no file descriptors available"}},
	{"processes", []string{"resource temporarily unavailable", "can't start new thread", "cannot fork", "can't fork", "eagain", "pthread_create failed"}},
	{"memory_mb", memoryWords},
	{"address_space_mb", memoryWords},
}

var memoryWords = []string{"cannot allocate memory", "can't allocate memory", "out of memory", "memoryerror", "bad_alloc", "memory exhausted", "enomem", "allocation failed", "failed to map segment"}

// hit says which limit a program ended by, as far as it can be known: surely where a signal tells, else by what it said.
func (l Limits) hit(e Exit) Hit {
	if !l.Any() || e.Code == 0 {
		return Hit{}
	}
	signal := e.Signal
	if signal == 0 && e.Code > 128 { // a shell's way, and bubblewrap's, to say how its own child has ended
		signal = syscall.Signal(e.Code - 128)
	}
	for _, v := range l.list() {
		h := Hit{v.name, true, fmt.Sprintf("%d%s", v.set, v.unit)}
		switch {
		case v.set == 0:
		case v.name == "cpu_seconds" && signal == syscall.SIGXCPU, v.name == "file_mb" && signal == syscall.SIGXFSZ,
			v.name == "cpu_seconds" && signal == syscall.SIGKILL && e.CPU.Seconds() >= float64(v.set):
			return h
		}
	}
	said := bytes.ToLower(e.Stderr[max(0, len(e.Stderr)-64<<10):])
	for _, sign := range signs {
		for _, v := range l.list() {
			if v.name != sign.name || v.set == 0 {
				continue
			}
			for _, w := range sign.words {
				if bytes.Contains(said, []byte(w)) {
					return Hit{v.name, false, fmt.Sprintf("%d%s", v.set, v.unit)}
				}
			}
		}
	}
	return Hit{}
}

// Fault is the failure of a run whose program ended so: its message is Why, and it names the limit that the program hit.
func (e Exit) Fault(code string) *fault.Fault {
	f := fault.New(fault.Internal, code, e.Why()).With("exit_code", e.Code)
	if e.Hit.Limit != "" {
		f.With("limit", e.Hit.Limit)
	}
	return f
}
