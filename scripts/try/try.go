// Package try ends a measurement or a test program at its first error, for scripts whose every step may fail. Check,
// Must and Failf panic with the error, so deferred calls end what was started, and Catch returns it. A panic ends the
// program where a goroutine has no Catch of its own.
package try

import "fmt"

type failure struct{ error }

// Check ends the function that has deferred Catch if there is an error.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Must is Check for a call with a value.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}

// Failf is Check for a new error.
func Failf(format string, args ...any) { Check(fmt.Errorf(format, args...)) }

// Catch is deferred: it sets err, the named result, to the error of Check. Other panics go on.
func Catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case failure:
		*err = r.error
	default:
		panic(r)
	}
}

// Run runs f and returns its error.
func Run(f func()) (err error) {
	defer Catch(&err)
	f()
	return nil
}
