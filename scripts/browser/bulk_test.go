package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestBulkByFilter: all runs that match a filter are stopped and retried, even if not all are loaded. If their number
// has changed since it was shown, nothing is done and the page says so.
func TestBulkByFilter(t *testing.T) {
	s := sharedStack(t)
	s.agent(t, "bulk")
	const waits = `{"agent_name":"bulk","prompt":"@say x","additional_demands":{"tags":["nowhere"]}}`
	const all = 205 // a page of the list has 200
	for range all {
		s.run(t, waits)
	}
	p := open(t, s, "/ui/runs?agent_name=bulk")
	p.has("205 runs")
	p.takeAll(all)
	p.click("Stop")
	p.has("Stop: 205 runs")
	s.run(t, waits) // after the count was shown
	p.click("Stop 205 runs")
	p.refused("expect_mismatch")
	if n := s.count(t, "agent_name=bulk&status=stopped"); n != 0 {
		t.Errorf("%d runs were stopped, though others match than were counted", n)
	}
	p.click("Cancel")
	p.click("Stop")
	p.click("Stop 206 runs")
	p.has("206 runs stopped")
	if n := s.count(t, "agent_name=bulk&status=stopped"); n != all+1 {
		t.Errorf("%d runs are stopped, want %d", n, all+1)
	}

	p = open(t, s, "/ui/runs?agent_name=bulk&status=stopped")
	p.has("206 runs")
	p.takeAll(all + 1)
	p.click("Run again")
	p.has("It costs again")
	eval[bool](p, `(() => { const b = document.querySelector("[data-confirm]"); b.click(); b.click(); `+
		`return true; })()`)
	p.has("206 runs started again")
	if n := s.count(t, "agent_name=bulk&status=pending"); n != all+1 {
		t.Errorf("%d runs wait, want each once more: %d", n, all+1)
	}
	s.call(t, "POST", "/runs/stop", `{"agent_name":"bulk","status":"pending"}`, 200)
}

// takeAll selects all runs that match the filters.
func (p *page) takeAll(n int) {
	p.t.Helper()
	p.until(`(() => { const all = document.querySelector("thead .pick input"); all && !all.checked && all.click(); ` +
		`return all?.checked; })()`)
	p.click(fmt.Sprintf("Select all %d matching runs", n))
	p.has(fmt.Sprintf("All %d matching runs selected", n))
}

// refused waits until the open dialog shows an error with this code.
func (p *page) refused(code string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`document.querySelector("dialog[open] [role=alert]")?.textContent.includes(%q)`, code))
}

// count returns how many runs match a filter.
func (s *stack) count(t *testing.T, filter string) (n int) {
	t.Helper()
	if err := json.Unmarshal([]byte(member(t, s.call(t, "GET", "/runs/count?"+filter, "", 200), "count")),
		&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// callsBack allows a stack to call webhooks on this machine.
var callsBack = []string{"AO_CALLBACK_HOSTS=127.0.0.1", "AO_CALLBACK_NETWORKS=127.0.0.0/8",
	"AO_CALLBACK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}

// TestRedeliver: dead HTTP callbacks are redelivered one by one, from the list of runs, and by filter.
func TestRedeliver(t *testing.T) {
	t.Parallel()
	var well atomic.Bool
	var tries atomic.Int32
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tries.Add(1)
		if !well.Load() {
			w.WriteHeader(http.StatusGone)
		}
	}))
	t.Cleanup(receiver.Close)
	s := ownStack(t, callsBack...)
	for _, agent := range []string{"told", "toldtoo"} {
		s.agent(t, agent)
		for range 3 {
			s.run(t, `{"agent_name":"`+agent+`","prompt":"@say x","callback_url":"`+receiver.URL+`/hook"}`)
		}
	}
	callbacks := func(filter string) int {
		return strings.Count(s.call(t, "GET", "/callbacks?"+filter, "", 200), `"run_id"`)
	}
	eventually(t, "nobody could be told", func() bool { return callbacks("status=dead") == 6 })

	p := open(t, s, "/ui/callbacks?agent_name=told")
	p.has("3 callbacks")
	p.click("Redeliver all matching")
	p.click("Redeliver 3")
	p.has("3 callbacks redelivered")
	eventually(t, "they are refused again", func() bool { return tries.Load() == 9 && callbacks("status=dead") == 6 })
	well.Store(true)
	p.click("Redeliver all matching")
	p.click("Redeliver 3")
	eventually(t, "all of the filter are delivered",
		func() bool { return callbacks("agent_name=told&status=delivered") == 3 })
	if n := callbacks("agent_name=toldtoo&status=dead"); n != 3 {
		t.Errorf("%d others are dead, want 3: the filter names one agent", n)
	}

	runs := open(t, s, "/ui/runs?agent_name=toldtoo")
	runs.has("3 runs")
	runs.until(`(document.querySelector("tbody .pick input").click(), true)`)
	runs.click("Redeliver")
	runs.click("Redeliver 1 run")
	eventually(t, "one is delivered", func() bool { return callbacks("agent_name=toldtoo&status=delivered") == 1 })
	all := open(t, s, "/ui/callbacks?status=dead")
	all.has("2 callbacks")
	all.click("Redeliver")
	all.click("Redeliver 1")
	eventually(t, "two are delivered", func() bool { return callbacks("agent_name=toldtoo&status=delivered") == 2 })
}
