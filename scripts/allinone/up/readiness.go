package up

import (
	"errors"
	"sync/atomic"
	"time"

	"ao/shared/fault"
)

// readiness holds why the process is not ready: its worker takes no runs yet.
type readiness struct {
	reason atomic.Pointer[fault.Fault] // nil: the worker takes runs, or has ended
}

func newReadiness() *readiness {
	j := new(readiness)
	j.set("its runners are being registered")
	return j
}

func (j *readiness) set(reason string) {
	j.reason.Store(fault.New(fault.Unavailable, "", "the worker takes no runs yet: "+reason).After(time.Second))
}

// registrationFailed records why a profile's runner could not register; the worker retries. GET /ready needs no
// token, so the reason includes only messages meant for callers.
func (j *readiness) registrationFailed(profile string, why error) {
	reason := "see the log"
	if f, ok := errors.AsType[*fault.Fault](why); ok {
		reason = f.Message
	}
	j.set("profile " + profile + " is not registered: " + reason)
}

// done marks that the worker takes runs or has ended.
func (j *readiness) done() { j.reason.Store(nil) }

// err returns why the process is not ready, or nil.
func (j *readiness) err() error {
	if f := j.reason.Load(); f != nil {
		return f
	}
	return nil
}
