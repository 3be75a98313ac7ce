package process

import (
	"bytes"
	"fmt"
	"syscall"

	"ao/shared/fault"
)

// limitMessages are phrases that programs print, in any case, when the kernel refuses them a resource.
var limitMessages = []struct {
	name  string
	words []string
}{
	{"cpu_seconds", []string{"cpu time limit exceeded"}},
	{"file_mb", []string{"file too large", "file size limit exceeded", "efbig"}},
	{"open_files", []string{"too many open files", "emfile", "no file descriptors available"}},
	{"processes", []string{"resource temporarily unavailable", "can't start new thread", "cannot fork", "can't fork",
		"eagain", "pthread_create failed"}},
	{"memory_mb", memoryPhrases},
	{"address_space_mb", memoryPhrases},
}

var memoryPhrases = []string{"cannot allocate memory", "can't allocate memory", "out of memory", "memoryerror",
	"bad_alloc", "memory exhausted", "enomem", "allocation failed", "failed to map segment"}

// detectHit returns the limit that ended a program: certain by a signal, else likely by its last output.
func (l Limits) detectHit(e Exit) Hit {
	if !l.any() || e.Code == 0 {
		return Hit{}
	}
	signal := e.signal
	if signal == 0 && e.Code > 128 { // how shells and bubblewrap report a child that a signal ended
		signal = syscall.Signal(e.Code - 128)
	}
	for _, v := range l.all() {
		h := Hit{v.name, true, fmt.Sprintf("%d%s", v.value, v.unit)}
		switch {
		case v.value == 0:
		case v.name == "cpu_seconds" && signal == syscall.SIGXCPU, v.name == "file_mb" && signal == syscall.SIGXFSZ,
			v.name == "cpu_seconds" && signal == syscall.SIGKILL && e.cpu.Seconds() >= float64(v.value):
			return h
		}
	}
	output := bytes.ToLower(e.Stderr[max(0, len(e.Stderr)-64<<10):])
	for _, sign := range limitMessages {
		for _, v := range l.all() {
			if v.name != sign.name || v.value == 0 {
				continue
			}
			for _, w := range sign.words {
				if bytes.Contains(output, []byte(w)) {
					return Hit{v.name, false, fmt.Sprintf("%d%s", v.value, v.unit)}
				}
			}
		}
	}
	return Hit{}
}

// Fault returns the failure of a run whose program ended so. Its message is Reason, and it names the signal and the
// limit. Programs may exit with 128 + a number by themselves, so such a code names only SIGKILL and SIGTERM.
func (e Exit) Fault(code string) *fault.Fault {
	f := fault.New(fault.Internal, code, e.Reason()).With("exit_code", e.Code)
	certain := e.signal != 0 || e.Code == 128+int(syscall.SIGKILL) || e.Code == 128+int(syscall.SIGTERM)
	if name := e.signalName(); certain && name != "" {
		f.With("signal", name)
	}
	if e.Hit.Limit != "" {
		f.With("limit", e.Hit.Limit)
	}
	return f
}
