package command

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// recording answers calls in turn, and keeps what was asked.
func recording(t *testing.T, answers ...string) (url string, asked *[]string, keys *[]string) {
	t.Helper()
	asked, keys = &[]string{}, &[]string{}
	url = serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		n := len(*asked)
		*asked, *keys = append(*asked, r.Method+" "+r.URL.Path+" "+string(body)),
			append(*keys, r.Header.Get("Idempotency-Key"))
		status, text, _ := strings.Cut(answers[min(n, len(answers)-1)], " ")
		w.Header().Set("Content-Type", "application/json")
		code := 0
		fmt.Sscan(status, &code)
		w.WriteHeader(code)
		io.WriteString(w, text)
	})
	return url, asked, keys
}

const five = `409 {"error":"expect_mismatch","message":"5 match now","count":5,"expect":0}`

// TestBulkCommandsNeedConfirmation: nothing is done before the user has confirmed the number of runs; then page by
// page.
func TestBulkCommandsNeedConfirmation(t *testing.T) {
	for _, tt := range []struct {
		args    string
		answers []string
		asked   []string
		out     string
		errs    string
		code    int
	}{
		{"stop --agent a --status pending", []string{five},
			[]string{`POST /runs/stop {"status":"pending","agent_name":"a","expect":0}`},
			"", "ao: this would stop 5 runs; confirm with --yes", exitUsage},
		{"stop --agent a", []string{`200 {"count":0,"runs":[]}`},
			[]string{`POST /runs/stop {"agent_name":"a","expect":0}`}, "", "no run matches\n", exitDone},
		{"stop --agent a --tree --yes", []string{five, `200 {"count":2,"runs":["run_5","run_4"],"next_cursor":"c"}`,
			`200 {"count":1,"runs":["run_3"]}`}, []string{
			`POST /runs/stop {"agent_name":"a","tree":true,"expect":0}`,
			`POST /runs/stop {"agent_name":"a","tree":true,"expect":5}`,
			`POST /runs/stop {"agent_name":"a","tree":true,"cursor":"c"}`,
		}, "run_5\nrun_4\nrun_3\n", "", exitDone},
		{"stop --session ses_1 --limit 2 -y",
			[]string{five, `200 {"count":2,"runs":["run_5","run_4"],"next_cursor":"c"}`}, []string{
				`POST /runs/stop {"session_id":"ses_1","limit":2,"expect":0}`,
				`POST /runs/stop {"session_id":"ses_1","limit":2,"expect":5}`,
			}, "run_5\nrun_4\n", "", exitDone},
		{"retry --error timeout --parent ses_2 --limit 3", []string{five},
			[]string{`POST /runs/retry {"parent_session_id":"ses_2","error":"timeout","limit":3,"expect":0}`},
			"", "ao: this would retry 3 runs", exitUsage},
		{"retry --status failed -y", []string{five, `200 {"count":1,"runs":["run_9"],"refused":[{"run_id":"run_1",` +
			`"error":{"error":"not_found","message":"There is no agent"}}]}`}, []string{
			`POST /runs/retry {"status":"failed","expect":0}`, `POST /runs/retry {"status":"failed","expect":5}`,
		}, "run_9\n", "run_1: There is no agent (not_found)\n", exitFailed},
		{"callbacks redeliver --agent a -y", []string{five, `200 {"count":5,"runs":["run_1"]}`}, []string{
			`POST /callbacks/redeliver {"agent_name":"a","expect":0}`,
			`POST /callbacks/redeliver {"agent_name":"a","expect":5}`,
		}, "run_1\n", "", exitDone},
		{"stop --agent a -y", []string{five, `409 {"error":"expect_mismatch","message":"6 match now","count":6}`},
			[]string{
				`POST /runs/stop {"agent_name":"a","expect":0}`, `POST /runs/stop {"agent_name":"a","expect":5}`,
			}, "", "ao: 6 match now (expect_mismatch)", exitFailed},
		{"--json stop --agent a -y", []string{five, `200 {"count":1,"runs":["run_1"]}`}, []string{
			`POST /runs/stop {"agent_name":"a","expect":0}`, `POST /runs/stop {"agent_name":"a","expect":5}`,
		}, `{"count":1,"runs":["run_1"]}` + "\n", "", exitDone},
	} {
		t.Run(tt.args, func(t *testing.T) {
			url, asked, _ := recording(t, tt.answers...)
			out, errs, code := ao(t, url, "", strings.Fields(tt.args)...)
			if got, want := strings.Join(*asked, "\n"), strings.Join(tt.asked, "\n"); got != want {
				t.Errorf("asked\n%s\nwant\n%s", got, want)
			}
			if out != tt.out || !strings.HasPrefix(errs, tt.errs) || tt.errs == "" && errs != "" || code != tt.code {
				t.Errorf("got %d, %q, %q", code, out, errs)
			}
		})
	}
}

// TestRetryWithAnotherParameter: the run's own parameters stay, except for those that are given.
func TestRetryWithAnotherParameter(t *testing.T) {
	const run = `200 {"run_id":"run_1","agent_name":"a","parameters":{"z":1.0,"n":9007199254740993,"x":"old"}}`
	const typed = `200 {"name":"a","type":"procedural","parameters_schema":{"type":"object",` +
		`"properties":{"depth":{"type":"integer"}}}}`
	const made = `201 {"run_id":"run_2","session_id":"ses_2","status":"pending","retry_of":"run_1"}`
	for _, tt := range []struct {
		args    string
		answers []string
		asked   string // the last
	}{
		{"retry run_1 -d", []string{made}, `POST /runs/run_1/retry {}`},
		{"retry run_1 -d -p x=new -p depth=3", []string{run, typed, made},
			`POST /runs/run_1/retry {"parameters":{"z":1.0,"n":9007199254740993,"x":"new","depth":3}}`},
		{`retry run_1 -d --params {"y":2}`, []string{run, made}, `POST /runs/run_1/retry {"parameters":{"y":2}}`},
		{"retry run_1 -d --same-session --prompt well --timeout 90s",
			[]string{`200 {"run_id":"run_1","agent_name":"a","parameters":{"prompt":"x"}}`, made},
			`POST /runs/run_1/retry {"in":"same_session","timeout_seconds":90,"parameters":{"prompt":"well"}}`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			url, asked, keys := recording(t, tt.answers...)
			out, errs, code := ao(t, url, "", append(strings.Fields(tt.args), "--idempotency-key", "k")...)
			if last := len(*asked) - 1; (*asked)[last] != tt.asked || (*keys)[last] != "k" {
				t.Errorf("asked %v with %v", *asked, *keys)
			}
			if out != "run_2\tses_2\n" || code != exitDone {
				t.Errorf("got %d, %q, %q", code, out, errs)
			}
		})
	}
}
