package bus

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestSecretFiles: other programs' keys and settings beside the login are secret as well.
func TestSecretFiles(t *testing.T) {
	t.Parallel()
	ring := t.TempDir()
	at := func(name string) string { return filepath.Join(ring, name) }
	for _, name := range []string{"a/nats.nk", "a/ca.crt", "a.env", "b/nats.nk", "b.env", "c/other", "d.env"} {
		if err := os.MkdirAll(filepath.Dir(at(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := Login{Creds: at("b/nats.nk"), Key: "/k"}.SecretFiles()
	if want := []string{at("b/nats.nk"), "/k", at("a/nats.nk"), at("a.env"), at("b.env")}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
