package browser

import (
	"fmt"
	"slices"
	"testing"
)

// TestTwelveTabs: twelve tabs with one list and one session share two streams. When the reading tabs are closed,
// others take over, and none misses an event.
func TestTwelveTabs(t *testing.T) {
	t.Parallel()
	s := ownStack(t)
	d := newBalancer(t, s)
	_, session := s.prompted(t, "twelve", "@say first")
	browser := open(t, d.stack, "/ui/settings") // the tabs are of this one's browser
	var tabs []*page
	for n := range 12 {
		tabs = append(tabs, browser.openTab(d.stack, []string{"/ui/runs?agent_name=twelve", "/ui/sessions/" +
			session}[n%2]))
		tabs[n].has("Live")
	}
	for round := range 4 {
		text := fmt.Sprintf("round %d.", round)
		s.finished(t, `{"type":"resume_session","session_id":"`+session+`","prompt":"@say `+text+`"}`)
		for _, p := range tabs {
			p.has(text)
			p.has("Live")
		}
		// later, a closed tab's stream may end shortly after the next one has started
		if most := d.perTurn.Load(); most != 2 && round == 0 {
			t.Errorf("up to %d streams were read, want one for each of the two", most)
		}
		eventually(t, "the tabs that are left read two streams", func() bool { return d.streams.Load() == 2 })
		var read []*page
		for _, p := range tabs {
			if p.streams.Load() > 0 {
				read = append(read, p)
			}
		}
		for _, p := range read { // now that no other one has started to
			p.end()
			tabs = slices.DeleteFunc(tabs, func(one *page) bool { return one == p })
		}
		if want := 12 - 2*(round+1); len(tabs) != want {
			t.Fatalf("%d tabs have not read a stream yet, want %d", len(tabs), want)
		}
	}
}
