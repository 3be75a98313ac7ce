package browser

import "testing"

// TestTheFirstMinute: one click leads from an empty page to a live tree, then to the verification. What users make of
// the other examples does not matter.
func TestTheFirstMinute(t *testing.T) {
	s := ownStack(t)
	for _, name := range []string{"content-writer", "summarizer", "data-extractor", "security-scanner"} {
		s.call(t, "PATCH", "/agents/"+name, `{"parameters_schema":{"type":"object","required":["topic"]}}`, 200)
	}
	p := open(t, s, "/ui/")
	p.click("Show me")
	p.until(`document.querySelectorAll(".minitree li").length >= 5`)
	p.until(`new URLSearchParams(location.search).get("first").startsWith("ses_")`)
	p.has("does not answer") // what the child that fails says
	p.has("Everything has ended")
	p.until(`document.querySelectorAll(".minitree .level0").length > 1`) // the parent was called back
	p.click("Prove it")
	p.has("Nothing was lost, nothing was done twice")
}

// TestWithoutTheProfileTest: what the demonstration needs, and how compose starts it, is said before anybody waits.
func TestWithoutTheProfileTest(t *testing.T) {
	t.Parallel()
	s := ownStack(t, "AO_PROFILES=procedural")
	p := open(t, s, "/ui/")
	p.has("No runner with the profile test is online")
	p.has("compose starts one unless AO_TEST_WORKERS is 0")
	p = open(t, s, "/ui/new?agent=show-me")
	p.fill("$.prompt", "x")
	p.has("the run would wait for one with the profile test")
}
