package main

import (
	"errors"
	"sync/atomic"
	"time"

	"ao/shared/fault"
)

// readiness is what keeps the process from being ready: its worker takes no runs yet. A new one says that the worker registers.
type readiness struct {
	reason atomic.Pointer[fault.Fault] // nil: it takes runs, or it has ended
}

func newReadiness() *readiness {
	j := new(readiness)
	j.set("its runners are being registered")
	return j
}

func (j *readiness) set(reason string) {
	j.reason.Store(fault.New(fault.Unavailable, "", "the worker takes no runs yet: "+reason).After(time.Second))
}

// registrationFailed notes why a profile's runner could not register. It tries again by itself. GET /ready asks for no token: only what
// is meant for callers is said.
func (j *readiness) registrationFailed(profile string, why error) {
	said := "the log says why"
	if f, ok := errors.AsType[*fault.Fault](why); ok {
		said = f.Message
	}
	j.set("profile " + profile + " is not registered: " + said)
}

// over: the worker takes runs, or it has ended, and nobody waits for it any more.
func (j *readiness) done() { j.reason.Store(nil) }

// err is nil, or why the process is not ready.
func (j *readiness) err() error {
	if f := j.reason.Load(); f != nil {
		return f
	}
	return nil
}
