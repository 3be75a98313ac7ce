package embed

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// NATS leaves files for the HTTP API: it takes a bounded number of connections.
func TestConnectionsAreBounded(t *testing.T) {
	opts, _, err := Config{StoreDir: t.TempDir(), Listen: "none"}.options()
	if err != nil {
		t.Fatal(err)
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	if most := uint64(max(opts.MaxConn, 0)); most < 64 || most > max(files.Cur/4, 64) || most > 64<<10 {
		t.Errorf("%d connections with %d files, want a quarter, 64 at least", opts.MaxConn, files.Cur)
	}
}

// What clients are refused is logged, and does not fill a disk.
func TestRefusalsInTheLogAreBounded(t *testing.T) {
	var log lines
	s, err := Start(Config{StoreDir: t.TempDir(), Listen: "127.0.0.1:0", Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 1200 {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "nats://"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.WriteString(c, "GARBAGE\r\n")
		if _, unread := io.Copy(io.Discard, c); err != nil || unread != nil {
			t.Fatal(err, unread)
		}
		c.Close()
	}
	s.Close()
	text := log.String()
	if n := strings.Count(text, " - cid:"); n < 1000 || n > 1100 {
		t.Errorf("%d lines about 1200 refusals, want the first 1000: %.500s", n, text)
	}
	if !strings.Contains(text, "omitted=") {
		t.Errorf("the log does not say how many are left out: %.500s", text)
	}
}

// lines is a log that several goroutines write.
type lines struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.String()
}
