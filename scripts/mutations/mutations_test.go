package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheLinesAreThere: a line that a change has moved or rewritten is broken no more. Each is there once.
func TestTheLinesAreThere(t *testing.T) {
	for _, m := range mutations {
		source, err := os.ReadFile(filepath.Join("../..", m.file))
		if n := strings.Count(string(source), m.old); err != nil || n != 1 {
			t.Errorf("%s, %s: %q is there %d times (%v), want once", m.file, m.does, m.old, n, err)
		}
	}
}
