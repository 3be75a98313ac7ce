package command

import (
	"strings"
	"testing"
)

// TestSettings: what is in force, as a table or line by line, and those alone that somebody has set.
func TestSettings(t *testing.T) {
	url := answering(t, 200, `{"settings":[{"name":"RUN_LEASE","value":"3","default":"15","source":"environment",`+
		`"help":"how long","secret":false},`+
		`{"name":"AO_CALLBACK_SECRET","value":"unset","default":"","source":"default","help":"signs","secret":true}]}`)
	out, errs, code := ao(t, url, "", "settings")
	if code != exitDone || !strings.Contains(out, "RUN_LEASE") || !strings.Contains(out, "environment") ||
		!strings.Contains(out, "AO_CALLBACK_SECRET") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	if out, _, _ := ao(t, url, "", "settings", "--changed",
		"--json"); out != `{"name":"RUN_LEASE","value":"3","default":"15","source":"environment","help":"how `+
		`long","secret":false}`+"\n" {
		t.Errorf("those that are set: %s", out)
	}
}
