package serve_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"ao/coordinator/projection/query"
	"ao/shared/run"
)

// TestPackedEvents: readers over HTTP see the events of a pack one by one, each with an id of its own. From each id the
// rest comes, live and by pages of every size: nothing twice, nothing missing.
func TestPackedEvents(t *testing.T) {
	t.Parallel()
	s := start(t)
	next, hangUp := s.listen("GET", "/sse/sessions", "")
	first, _ := next()
	var w *worker
	ready := make(chan struct{})
	w = s.workAs(thinker("minds"), func(q run.Queued) run.Outcome {
		<-ready
		w.message(q, "1", "2", "3")
		w.message(q, "4")
		w.message(q, "5", "6")
		return done(`"the end"`)
	})
	close(ready)
	s.post("/agents", `{"name":"mind"}`).want(201)
	acc := s.submit(`{"agent_name":"mind","prompt":"x"}`)
	s.until(acc.RunID, run.Completed)

	type page struct {
		Events []run.Event
		Next   string
	}
	const want = "run_start 1 2 3 4 5 6 result run_completed"
	shown := func(events []run.Event) string {
		var all []string
		for _, e := range events {
			if text := textIn(e); text != "" {
				all = append(all, text)
			} else {
				all = append(all, e.Type)
			}
		}
		return strings.Join(all, " ")
	}
	events := "/sessions/" + acc.SessionID + "/events"
	whole := into[page](s.get(events), 200)
	if got := shown(whole.Events); got != want {
		t.Fatalf("got %s", got)
	}
	if got := s.get(events).body; strings.Contains(got, "proof") || strings.Contains(got, run.PackKind) {
		t.Errorf("readers see %s", got)
	}
	for limit := 1; limit <= len(whole.Events); limit++ {
		var all []run.Event
		for after := ""; ; {
			p := into[page](s.get(fmt.Sprintf("%s?limit=%d&after=%s", events, limit, url.QueryEscape(after))), 200)
			all = append(all, p.Events...)
			if len(p.Events) == 0 {
				break
			}
			after = p.Next
		}
		if got := shown(all); got != want {
			t.Errorf("by %d: %s", limit, got)
		}
	}

	// read gives what comes live until the run's end, and under which ids.
	read := func(next func() (sseEvent, bool)) (events []run.Event, ids []string) {
		for {
			e, ok := next()
			if !ok {
				t.Fatal("the stream ended")
			}
			if e.name != query.ItemEvent {
				continue
			}
			var one run.Event
			if err := json.Unmarshal([]byte(e.data), &one); err != nil {
				t.Fatal(err)
			}
			events, ids = append(events, one), append(ids, e.id)
			if one.Type == run.EventCompleted {
				return events, ids
			}
		}
	}
	live, ids := read(next)
	hangUp()
	if got := shown(live); got != want || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != len(ids) {
		t.Errorf("live: %s under %s", got, ids)
	}
	for i, id := range append([]string{first.id}, ids[:len(ids)-1]...) {
		for _, of := range []string{"", "?session_id=" + acc.SessionID} {
			next, hangUp := s.listen("GET", "/sse/sessions"+of, "", "Last-Event-ID: "+id)
			rest, under := read(next)
			hangUp()
			if shown(rest) != shown(live[i:]) || !slices.Equal(under, ids[i:]) {
				t.Errorf("behind %s%s come %s under %s, want %s under %s", id, of, shown(rest), under, shown(live[i:]),
					ids[i:])
			}
		}
		if p := into[page](s.get(events+"?after="+id), 200); shown(p.Events) != shown(live[i:]) {
			t.Errorf("after %s the list has %s", id, shown(p.Events))
		}
	}
}

// TestExplainAnswersInAPack: answers that did not fit are found also where they were reported together.
func TestExplainAnswersInAPack(t *testing.T) {
	t.Parallel()
	rejected := func(attempt int, what string) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"role":"system","content":[{"type":"text","text":"No."}],`+
			`"rejection":{"attempt":%d,"of":3,"errors":[{"path":"$","message":%q}]}}`, attempt, what))
	}
	got := rejectedIn(explainedMind(t, func(w *worker, q run.Queued) run.Outcome {
		w.publish(q, run.TextMessage("system", "I am thinking"), rejected(1, "nothing fits"), rejected(2, "one fits"))
		w.publish(q, rejected(3, "two fit"))
		return counted(`{"valid":true,"retry_count":3}`)
	}))
	const rejection = "answer %d of 3 does not match the output schema: $: %s"
	want := []string{fmt.Sprintf(rejection, 1, "nothing fits"), fmt.Sprintf(rejection, 2, "one fits"),
		fmt.Sprintf(rejection, 3, "two fit")}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestExplainKeepsWithinBounds: an executor that reports without end that its answers do not fit makes no endless
// story.
func TestExplainKeepsWithinBounds(t *testing.T) {
	t.Parallel()
	rejected := rejectedIn(explainedMind(t, func(w *worker, q run.Queued) run.Outcome {
		many := slices.Repeat([]json.RawMessage{json.RawMessage(`{"role":"system","rejection":{"attempt":1,"of":3}}`)},
			run.MaxPacked)
		for range 8 {
			w.publish(q, many...)
		}
		return counted("")
	}))
	if len(rejected) == 0 || len(rejected) > 1000 {
		t.Errorf("the story has %d answers that did not fit", len(rejected))
	}
}
