package command

import (
	"strings"
	"testing"
	"time"
)

func TestExplain(t *testing.T) {
	now := time.Now()
	at := func(ago time.Duration) string { return now.Add(-ago).UTC().Format(time.RFC3339Nano) }
	first, later := at(2*time.Minute+10*time.Second), at(2*time.Minute+7500*time.Millisecond)
	url := api(t, map[string]string{
		"GET /runs/run_1/explain": `{"run_id":"run_1","session_id":"ses_1","agent_name":"a","status":"pending",` +
			`"attempt":2,"max_attempts":3,"summary":"It waits \u001b[31mfor a runner.",
			"waits_for":{"reason":"no_matching_runner","wants":{"tags":["gpu"]},"more_runners":7,"runners":[
				{"runner_id":"rnr_1","hostname":"h","executor_profile":"p","status":"stale","max_concurrent_runs":4,` +
			`"running":1,"mismatches":[{"field":"tags","wanted":["gpu","eu"],"has":[]},{"field":"status",` +
			`"wanted":"online","has":"stale"},{"field":"agent","wanted":"x","has":null}]}]},
			"story":[{"at":"` + first + `","what":"accepted","detail":"for agent a","sequence":1},
			{"at":"` + later + `","attempt":1,"what":"claimed","detail":"by runner rnr_1\nand more","sequence":3}],
			"incomplete":"NATS does not answer"}`,
		"GET /runs/run_2/explain": `{"run_id":"run_2","session_id":"ses_1","agent_name":"a","status":"pending",` +
			`"attempt":1,"max_attempts":1,"summary":"It waits for a free slot.",
			"waits_for":{"reason":"no_free_slot","runners":[{"runner_id":"rnr_1","hostname":"h",` +
			`"executor_profile":"p","status":"online","max_concurrent_runs":5,"running":5,"mismatches":[],
				"holds":[` +
			strings.Repeat(`{"run_id":"run_9","agent_name":"b","since":"`+at(63*time.Minute+30*time.Second)+`"},`, 4) +
			`{"run_id":"run_8","agent_name":"b","since":"` + first + `"}]}]},
			"story":[{"at":"` + first + `","what":"accepted","detail":"for agent a"}]}`,
		"GET /runs/run_3/explain": `{"run_id":"run_3","session_id":"ses_1","agent_name":"a","status":"failed",` +
			`"attempt":1,"max_attempts":1,"summary":"It failed.","waits_for":null,
			"story":[{"at":"` + first + `","what":"accepted","detail":"for agent a"},
			{"at":"` + later + `","attempt":1,"what":"failed","detail":"no"}]}`,
	})
	for _, tt := range []struct{ run, out, errs string }{
		{"run_1", `
run        run_1
agent      a
session    ses_1
status     pending, attempt 2 of 3
waits for  no_matching_runner

It waits \x1b[31mfor a runner.

RUNNER  STATUS  HOST  PROFILE  SLOTS  WHY NOT
rnr_1   stale   h     p        1/4    tags is none, wanted gpu,eu; status is stale, wanted online; agent is none, ` +
			`wanted x

WHEN    AFTER  ATTEMPT  WHAT      DETAIL
2m ago  +0ms   -        accepted  for agent a
2m ago  +2.5s  1        claimed   by runner rnr_1\nand more
`, "and 7 more runners; 'ao runners' lists them\nincomplete: NATS does not answer\n"},
		{"run_2", `
run        run_2
agent      a
session    ses_1
status     pending
waits for  no_free_slot

It waits for a free slot.

RUNNER  STATUS  HOST  PROFILE  SLOTS  WHY NOT
rnr_1   online  h     p        5/5    run_9 (b, 1h03m); run_9 (b, 1h03m); run_9 (b, 1h03m); and 2 more

WHEN    AFTER  WHAT      DETAIL
2m ago  +0ms   accepted  for agent a
`, ""},
		{"run_3", `
run      run_3
agent    a
session  ses_1
status   failed

It failed.

WHEN    AFTER  WHAT      DETAIL
2m ago  +0ms   accepted  for agent a
2m ago  +2.5s  failed    no
`, ""},
	} {
		t.Run(tt.run, func(t *testing.T) {
			out, errs, code := ao(t, url, "", "explain", tt.run)
			if "\n"+out != tt.out || errs != tt.errs || code != exitDone {
				t.Errorf("got %d, %s%s\nwant %s%s", code, out, errs, tt.out, tt.errs)
			}
		})
	}
	if out, _, code := ao(t, url, "", "explain", "run_3", "--json"); !strings.HasPrefix(out, `{"run_id":"run_3"`) ||
		strings.Count(out, "\n") != 1 || code != exitDone {
		t.Errorf("as JSON: %d %s", code, out)
	}
	for _, wrong := range []string{"ses_1", "run_a/b", ""} {
		if _, errs, code := ao(t, url, "", "explain", wrong); code != exitUsage {
			t.Errorf("%q: %d %s", wrong, code, errs)
		}
	}
	if _, errs, code := ao(t, answering(t, 404, `{"error":"not_found","message":"There is no run run_4"}`), "",
		"explain", "run_4"); code != exitFailed || !strings.Contains(errs, "There is no run run_4") {
		t.Errorf("an unknown one: %d %s", code, errs)
	}
}
