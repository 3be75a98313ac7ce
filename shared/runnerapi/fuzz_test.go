package runnerapi

import (
	"strings"
	"testing"
)

// FuzzSessionToken: what a token says whose it is comes back as it was put in, and what is read of any text is
// never taken for more.
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
