package main

import "fmt"

// A measurement ends at its first error: check, must and fail panic with it, deferred calls end what was started, and
// try returns it. They are not for goroutines.
type failure struct{ error }

func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func fail(format string, args ...any) { check(fmt.Errorf(format, args...)) }

func try(f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			failed, ok := r.(failure)
			if !ok {
				panic(r)
			}
			err = failed.error
		}
	}()
	f()
	return nil
}
