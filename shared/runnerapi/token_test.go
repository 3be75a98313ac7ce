package runnerapi

import "testing"

func TestSessionToken(t *testing.T) {
	token := SessionToken("run_1", 2, "key")
	run, attempt, ok := ReadSessionToken(token)
	if !ok || run != "run_1" || attempt != 2 || SessionToken(run, attempt, "key") != token {
		t.Errorf("%s: read %q %d %v", token, run, attempt, ok)
	}
	for _, other := range []string{SessionToken("run_1", 3, "key"), SessionToken("run_2", 2, "key"),
		SessionToken("run_1", 2, "yek")} {
		if other == token {
			t.Errorf("%s is another's token, too", token)
		}
	}
	for _, bad := range []string{"", "aos_", "aos_run_1", "run_1.2.3", "aos_run_1.0.ab", "aos_run_1.x.ab",
		"aos_.1.ab", token + ".x"} {
		if _, _, ok := ReadSessionToken(bad); ok {
			t.Errorf("%q was read", bad)
		}
	}
}
