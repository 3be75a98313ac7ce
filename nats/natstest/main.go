package natstest

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Main runs the tests of a package, as its TestMain, and exits. It fails if a goroutine with code of this repository is
// still running five seconds after the last test.
func Main(m *testing.M) {
	code := m.Run()
	var left []string
	if !Poll(5*time.Second, func() bool { left = goroutines(); return len(left) == 0 }) {
		fmt.Fprintf(os.Stderr, "%d goroutines are left after the tests, want none:\n\n%s\n", len(left),
			strings.Join(left, "\n\n"))
		code = max(code, 1)
	}
	os.Exit(code)
}

// goroutines returns the stacks of the other goroutines that have code of this repository in them.
func goroutines() (all []string) {
	buf := make([]byte, 16<<20)
	stacks := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	for _, stack := range stacks[1:] { // the first is this one
		if strings.Contains(stack, "\nao/") || strings.Contains(stack, "created by ao/") {
			all = append(all, stack)
		}
	}
	return all
}
