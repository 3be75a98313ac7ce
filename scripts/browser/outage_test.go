package browser

import (
	"fmt"
	"testing"
	"time"
)

// TestOutage: every request is answered with 503 for 20 s. Open pages say so and keep their content, then continue by
// themselves without gaps or duplicates.
func TestOutage(t *testing.T) {
	t.Parallel()
	s := ownStack(t)
	d := newBalancer(t, s)
	s.agent(t, "outlasts")
	_, session := s.finished(t, `{"agent_name":"outlasts","prompt":"@say before"}`)
	slow, _ := s.run(t, `{"agent_name":"outlasts","prompt":"@sleep 600s"}`)
	list := open(t, d.stack, "/ui/runs?agent_name=outlasts")
	list.until(row("@sleep 600s") + `?.innerText.includes("running")`)
	pages := []*page{list, list.openTab(d.stack, "/ui/sessions/"+session), list.openTab(d.stack, "/ui/runs/"+slow),
		list.openTab(d.stack, "/ui/")}
	for _, p := range pages {
		p.until(`document.querySelector(".connection").innerText.match(/Live|Connected/)`)
		eval[bool](p, `(window.same = true)`) // gone with a reload
	}

	d.close()
	back := time.After(20 * time.Second)
	before := list.streams.Load()
	for _, p := range pages {
		p.has("Reconnecting")
	}
	s.finished(t, `{"type":"resume_session","session_id":"`+session+`","prompt":"@say meanwhile"}`)
	for n := range 5 {
		s.finished(t, fmt.Sprintf(`{"agent_name":"outlasts","prompt":"@say number %d."}`, n))
	}
	s.call(t, "POST", "/runs/"+slow+"/stop", "", 200)
	<-back
	// Pauses of 0.5, 1, 2, 4, 5 and 5 s at most make six tries in 17.5 s. So nobody waits longer than 5 s once the
	// outage is over.
	if n := list.streams.Load() - before; n < 6 {
		t.Errorf("the list asked %d times for its stream, want at least 6", n)
	}
	for _, p := range pages[1:] {
		p.has("Reconnecting")
	}
	if !eval[bool](list, row("@sleep 600s")+`?.innerText.includes("running") === true && `+row("number")+
		` === undefined`) {
		t.Error("the list lost what it had shown")
	}
	d.reopen()

	list.until(`document.querySelectorAll("tbody tr").length === 8`)
	for n := range 5 {
		list.until(row(fmt.Sprintf("number %d.", n)) + `?.innerText.includes("completed")`)
	}
	list.until(row("Stopped while it ran") + `?.innerText.includes("stopped")`)
	for _, p := range pages {
		p.until(`document.querySelector(".connection").innerText.match(/Live|Connected/)`)
	}
	// the prompt and the answer
	pages[1].until(`document.querySelectorAll(".turn").length === 2 && ` +
		`document.querySelector("main").innerText.split("meanwhile").length - 1 === 2`)
	pages[2].until(`document.querySelector("h1").innerText.includes("stopped")`)
	pages[3].until(`document.querySelector(".figures") && !document.body.innerText.includes("may be old")`)
	for _, p := range pages {
		if !eval[bool](p, `window.same === true`) {
			t.Errorf("%s was loaded again", p.path())
		}
	}
	if n := eval[int](list, `new Set([...document.querySelectorAll("tbody a.name")].map((a) => a.href)).size`); n != 8 {
		t.Errorf("%d runs are shown, want 8, each once", n)
	}
}
