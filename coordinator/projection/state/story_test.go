package state

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// blank is a reducer of a deployment.
func blank() *State {
	f := newReducer(keyOf)
	f.checked = marked
	return f
}

func reduced(t testing.TB, records []entry) *State {
	t.Helper()
	return reducedWith(t, nil, records)
}

func reducedWith(t testing.TB, key func(string, int) string, records []entry) *State {
	t.Helper()
	f := newReducer(key)
	f.checked = marked
	for i, e := range records {
		if _, err := f.Apply(message(i+1, e)); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// draw shows what readers see of a projection; runs and sessions by id, no sequences.
func draw(f *State) string {
	var lines []string
	for _, r := range f.runs {
		s := ViewOf(f, r)
		lines = append(
			lines,
			fmt.Sprintf(
				"%s %s %s attempt=%d runner=%s claimed=%d started=%d ended=%d",
				s.ID,
				s.SessionID,
				s.Status,
				s.Attempt,
				s.Runner,
				s.Claimed,
				s.Started,
				s.Ended,
			),
		)
		lines = append(
			lines,
			fmt.Sprintf(
				"%s calls %s begun=%t",
				s.ID,
				must(json.Marshal([]any{s.calls.orphan, s.calls.Parent, s.calls.HTTP})),
				s.ClaimedByRunner,
			),
		)
		if a := s.Active; a != nil {
			lines = append(
				lines,
				fmt.Sprintf(
					"%s open=%t queue=%s key=%s stopping=%t offered=%t spec=%s",
					s.ID,
					a.open(),
					a.Queue,
					a.Key,
					a.Stopping,
					a.UnverifiedSeq != 0,
					must(json.Marshal(a.Spec)),
				),
			)
		}
	}
	for _, s := range f.sessions {
		lines = append(lines, string(must(json.Marshal(SessionOf(f, s)))))
		if s.everClaimed() || len(s.live) > 0 { // no other session can go on
			lines = append(lines, s.ID()+" model="+fmt.Sprint(s.Binding()))
		}
	}
	for id := range f.deleted {
		lines = append(lines, "deleted "+id.Text(SessionPrefix))
	}
	for id, p := range f.Callbacks.reserved {
		lines = append(lines, fmt.Sprint("promised ", id.Text(RunPrefix), " ", p.session, " ", len(p.children)))
	}
	lines = append(lines, fmt.Sprint("counts ", f.waiting, f.claimed, f.ended))
	return sorted(lines)
}

func sorted(lines []string) string {
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
