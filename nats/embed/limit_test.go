package embed

import "testing"

// NATS leaves files for the HTTP API: it takes a bounded number of connections.
func TestConnectionsAreBounded(t *testing.T) {
	opts, _, err := Config{StoreDir: t.TempDir()}.options()
	if err != nil {
		t.Fatal(err)
	}
	if most := connections(); opts.MaxConn != most || most < 64 {
		t.Errorf("%d connections, want %d", opts.MaxConn, most)
	}
}
