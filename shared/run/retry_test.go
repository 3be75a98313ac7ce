package run

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// With a second attempt allowed, the first one failed or was lost.
const retries = `
           nobody     runner     coordinator
pending    retried    retried    .
claimed    retried    retried    .
running    retried    retried    .
stopping   .          .          .
completed  .          .          .
failed     .          .          .
stopped    .          .          .
`

func TestRetried(t *testing.T) {
	claims := []*Claim{nil, {RunnerID: "r"}, {}}
	var b strings.Builder
	fmt.Fprintf(&b, "%-11s%-11s%-11s%s\n", "", "nobody", "runner", "coordinator")
	for _, before := range Statuses {
		row := fmt.Sprintf("%-11s", before)
		for _, c := range claims {
			cell := "."
			if (&Spec{Attempts: 2}).WillRetry(1, c.Claimant(), before) {
				cell = "retried"
			}
			row += fmt.Sprintf("%-11s", cell)
			for _, most := range []int{0, 1} { // none is one
				if (&Spec{Attempts: most}).WillRetry(1, c.Claimant(), before) ||
					(&Spec{Attempts: 2}).WillRetry(2, c.Claimant(), before) {
					t.Errorf("%s: retried though no attempt is left", before)
				}
			}
		}
		b.WriteString(strings.TrimRight(row, " ") + "\n")
	}
	if got := "\n" + b.String(); got != retries {
		t.Errorf("the policy draws\n%s\nwant\n%s", got, retries)
	}
}

func TestBackoff(t *testing.T) {
	for n, want := range map[int]time.Duration{-1: time.Second, 1: time.Second, 2: 2 * time.Second,
		6: 32 * time.Second, 7: time.Minute, 100: time.Minute} {
		if got := Backoff(n); got != want {
			t.Errorf("after attempt %d: %v, want %v", n, got, want)
		}
	}
}
