package command

import (
	"strings"
	"testing"

	"ao/shared/run"
)

// TestFollowRunsAtATerminal: the list has a screen of its own, shows each run as it is now, obeys q, and leaves the
// terminal as it was. Trouble with the connection stands in its first line.
func TestFollowRunsAtATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	list := `{"runs":[` + row("run_2", "running", 1) + `,` + row("run_1", "running", 1) + `],"next_cursor":"c"}`
	for _, tt := range []struct {
		name, args string
		script     []exchange
		want       string // a picture: id, status
		head       string
	}{
		{"changes", "--limit 2", []exchange{
			{"/runs  200", 0, "7", list},
			{"/sse/runs 7 ", 0, "", changed("8", row("run_1", "completed", 1)) +
				changed("9", row("run_3", "pending", 1))},
		}, "run_3 pending|run_2 running", "live"},
		{"a run that left makes room for an older one", "--status running --limit 2", []exchange{
			{"/runs  200running", 0, "7", list},
			{"/sse/runs 7 running", 0, "", changed("8", row("run_1", "completed", 1))},
			{"/runs 8 200running", 0, "8", `{"runs":[` + row("run_2", "running", 1) + `,` + row("run_0", "running", 1) +
				`]}`},
			{"/sse/runs 8 running", 0, "", ""},
		}, "run_2 running|run_0 running", "live"},
		{"nobody answers", "", []exchange{
			{"/runs  200", 0, "7", list},
			{"/sse/runs 7 ", 503, "", `{"error":"unavailable","message":"NATS is away"}`},
		}, "run_2 running|run_1 running", "NATS is away"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &followed{script: tt.script}
			t.Setenv("AO_URL", serve(t, s.ServeHTTP))
			person, program := terminal(t, 9, 160)
			shown := make(chan string)
			go func() {
				all, typed := "", false
				b := make([]byte, 4096)
				for !strings.Contains(all, "THE END") {
					n, err := person.Read(b)
					if err != nil {
						break
					}
					all += string(b[:n])
					if head, rows := lastPicture(all); !typed && rows == tt.want && strings.Contains(head, tt.head) {
						typed = true
						_, _ = person.WriteString("q")
					}
				}
				shown <- all
			}()
			code := Main(t.Context(), strings.Fields("runs -f "+tt.args), program, program, program, nil)
			_, _ = program.WriteString("THE END")
			all := <-shown
			if code != exitDone || !strings.HasPrefix(all, enterScreen+cursorHome+"ao runs  http://127.0.0.1:") ||
				!strings.Contains(all, leaveScreen) {
				t.Errorf("%d, asked %q: %q", code, s.asked, all)
			}
		})
	}
}

// lastPicture is the first line of the last whole picture, and its runs with their states.
func lastPicture(all string) (head, rows string) {
	pictures := strings.Split(all, cursorHome)
	for i := len(pictures) - 1; i > 0; i-- {
		if !strings.Contains(pictures[i], clearBelow) {
			continue
		}
		var found []string
		for line := range strings.Lines(pictures[i]) {
			words := strings.Fields(strings.ReplaceAll(line, clearLine, ""))
			if len(words) > 2 && run.CheckID(words[0]) == nil {
				found = append(found, words[0]+" "+words[2])
			}
		}
		head, _, _ = strings.Cut(pictures[i], "\r\n")
		return head, strings.Join(found, "|")
	}
	return "", ""
}
