//go:build compose

package compose

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

func stored(t *testing.T, s *stack) { s.stores(t, "nats", "/own/1", 1) }

// stores checks that a NATS server has the storage limit written by the service init, and that it fits on the disk.
func (s *stack) stores(t *testing.T, service, volume string, sharing int64) {
	t.Helper()
	shell := func(script string) string {
		return s.docker(t, "run", "--rm", "-T", "--no-deps", "--entrypoint", "sh", "init", "-c", script)
	}
	number := func(text string) int64 {
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	size := number(shell("sed -n 's/^max_file_store: //p' " + volume + "/store.conf"))
	free := number(shell("df --output=avail -B1 " + volume + " | tail -1"))
	if has := number(shell("du -sb " + volume + " | cut -f1")); size <= 0 || size > has+free/sharing {
		t.Errorf("%s may store %d bytes; it has %d, and of %d that are free a part of 1/%d", service, size, has, free,
			sharing)
	}
	logged := ""
	for line := range strings.Lines(s.docker(t, "logs", "--no-color", service)) {
		if _, after, ok := strings.Cut(line, "Max Storage:"); ok {
			logged = strings.TrimSpace(after)
		}
	}
	if want := formatBytes(size); logged != want {
		t.Errorf("%s says that it stores %q at most, init wrote %d bytes, which are %q", service, logged, size, want)
	}
}

// formatBytes formats a size like the server.
func formatBytes(bytes int64) string {
	n, unit := float64(bytes), "B"
	for _, next := range []string{"KB", "MB", "GB", "TB"} {
		if n >= 1024 {
			n, unit = n/1024, next
		}
	}
	return fmt.Sprintf("%.2f %s", n, unit)
}
