package run

import (
	"fmt"
	"strings"
	"testing"
)

const life = `
           claimed    started    stopping   retried    completed  failed     stopped
pending    claimed    .          stopping   .          completed  failed     stopped
claimed    .          running    stopping   pending    completed  failed     stopped
running    .          .          stopping   pending    completed  failed     stopped
stopping   .          .          .          .          completed  failed     stopped
completed  .          .          .          .          .          .          .
failed     .          .          .          .          .          .          .
stopped    .          .          .          .          .          .          .
`

var moves = []Move{MoveClaimed, MoveStarted, MoveStopping, MoveRetried, MoveCompleted, MoveFailed, MoveStopped}

func TestTransitions(t *testing.T) {
	var b strings.Builder
	line := func(first string, cell func(Move) string) {
		row := fmt.Sprintf("%-11s", first)
		for _, m := range moves {
			row += fmt.Sprintf("%-11s", cell(m))
		}
		b.WriteString(strings.TrimRight(row, " ") + "\n")
	}
	line("", func(m Move) string { return string(m) })
	for _, s := range Statuses {
		line(string(s), func(m Move) string {
			if to, ok := transitions[s][m]; ok {
				return string(to)
			}
			return "."
		})
	}
	if got := "\n" + b.String(); got != life {
		t.Errorf("the table draws\n%s\nwant\n%s", got, life)
	}
}

func TestFinalStatusesNeverChange(t *testing.T) {
	for _, s := range Statuses {
		for _, m := range moves {
			if s.Final() && s.After(m) != s {
				t.Errorf("%s after %s is %s", s, m, s.After(m))
			}
		}
	}
}
