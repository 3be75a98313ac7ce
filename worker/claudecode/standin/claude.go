package standin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ao/worker/process"
)

// Claude returns the first of claudes.
func Claude(t testing.TB) string {
	t.Helper()
	return claudes(t)[0]
}

// claudes returns real claude programs of different versions: those that AO_TEST_CLAUDE lists, those that
// scripts/get-claude fetched, or the one on PATH. Without any, the test is skipped; recorded transcripts are replayed
// everywhere (TestTranscripts of worker/claudecode).
func claudes(t testing.TB) []string {
	t.Helper()
	if own := filepath.SplitList(os.Getenv("AO_TEST_CLAUDE")); len(own) > 0 {
		for i := range own {
			path, err := process.Find(own[i], "")
			if err != nil {
				t.Fatalf("AO_TEST_CLAUDE: %v", err)
			}
			own[i] = path
		}
		return own
	}
	if all, _ := filepath.Glob(filepath.Join(fetchedDir(), "*", "claude")); len(all) > 0 { // sorted by version
		return all
	}
	if path, err := process.Find("claude", os.DevNull); err == nil { // no folder, so only PATH is searched
		return []string{path}
	}
	t.Skip("no claude program: run scripts/get-claude or set AO_TEST_CLAUDE; recorded transcripts are replayed " +
		"instead (TestTranscripts)")
	return nil
}

// Each runs a test with each of claudes.
func Each(t *testing.T, test func(t *testing.T, claude string)) {
	t.Helper()
	for _, claude := range claudes(t) {
		t.Run(strings.TrimPrefix(filepath.Dir(claude), fetchedDir()+"/"), func(t *testing.T) {
			t.Parallel()
			test(t, claude)
		})
	}
}

// fetchedDir returns where scripts/get-claude puts them, below the folder of go.work.
func fetchedDir() string {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.work")); missing == nil || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return filepath.Join(dir, "bin/claude-code")
}
