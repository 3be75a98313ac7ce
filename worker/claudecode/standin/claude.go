package standin

import (
	"os"
	"path/filepath"
	"testing"

	"ao/worker/process"
)

// Claude gives the real claude program: where AO_TEST_CLAUDE says, on PATH, or where scripts/get-claude puts it. Where there is none
// the test is skipped; the transcripts that were recorded of it are replayed everywhere (TestTranscripts of worker/claudecode).
func Claude(t testing.TB) string {
	t.Helper()
	if own := os.Getenv("AO_TEST_CLAUDE"); own != "" {
		path, err := process.Find(own, "")
		if err != nil {
			t.Fatalf("AO_TEST_CLAUDE: %v", err)
		}
		return path
	}
	for _, name := range []string{"claude", fetched()} {
		if path, err := process.Find(name, os.DevNull); err == nil { // nothing lies in there, so that a name is looked for on PATH alone
			return path
		}
	}
	t.Skip("there is no claude program here: scripts/get-claude installs it, and AO_TEST_CLAUDE says where another one is; recorded transcripts are replayed instead (TestTranscripts)")
	return ""
}

// fetched is where scripts/get-claude puts it: below the folder of go.work, wherever in there the test is.
func fetched() string {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.work")); missing == nil || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return filepath.Join(dir, "bin/claude-code/claude")
}
