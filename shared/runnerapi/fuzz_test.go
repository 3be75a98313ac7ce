package runnerapi

import (
	"strings"
	"testing"
)

// FuzzSessionToken: a token gives back the run and the attempt that were put in. Any text that is read as a token has
// the prefix, a run and an attempt. A token does not show its key.
func FuzzSessionToken(f *testing.F) {
	f.Add("run_1", 1, "key", "aos_run_1.1.00")
	f.Add("", 0, "", "aos_..")
	f.Add("run.1", -1, "k", "aos_run_1.+1.x")
	f.Fuzz(func(t *testing.T, run string, attempt int, key, text string) {
		if r, n, ok := ReadSessionToken(text); ok && (r == "" || n < 1 || !strings.HasPrefix(text, TokenPrefix)) {
			t.Errorf("%q is read as %q %d", text, r, n)
		}
		if run == "" || strings.Contains(run, ".") || attempt < 1 {
			return
		}
		token := SessionToken(run, attempt, key)
		if r, n, ok := ReadSessionToken(token); !ok || r != run || n != attempt {
			t.Errorf("%q of %q %d is read as %q %d %v", token, run, attempt, r, n, ok)
		}
		if len(key) > 8 && strings.Contains(strings.TrimPrefix(token, TokenPrefix+run), key) {
			t.Errorf("the token %q shows the key %q", token, key)
		}
	})
}
