package embed

import (
	"syscall"
	"testing"
)

// NATS leaves files for the HTTP API: it takes a bounded number of connections.
func TestConnectionsAreBounded(t *testing.T) {
	opts, _, err := Config{StoreDir: t.TempDir()}.options()
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
