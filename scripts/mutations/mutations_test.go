package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMutatedLinesExist: a mutation whose line was moved or rewritten would break nothing. Each line exists once.
func TestMutatedLinesExist(t *testing.T) {
	for _, m := range mutations {
		source, err := os.ReadFile(filepath.Join("../..", m.file))
		if n := strings.Count(string(source), m.old); err != nil || n != 1 {
			t.Errorf("%s, %s: %q is there %d times (%v), want once", m.file, m.does, m.old, n, err)
		}
	}
}
