package serve_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"ao/coordinator/runs"
	"ao/shared/run"
)

// What is large is cut where that is asked for, and says so; as a file it is whole.
func TestLargeAnswersAreCut(t *testing.T) {
	t.Parallel()
	s := start(t)
	text := strings.Repeat("ä", 5000)
	data := `{"10":1.50,"2":9223372036854775807,"text":"` + text + `","tail":"` + text + `"}`
	var w *worker
	ready := make(chan struct{})
	w = s.work(func(q run.Queued) run.Outcome {
		<-ready
		w.message(q, text)
		if strings.Contains(string(q.Parameters), "many") {
			return done("[" + strings.Repeat("1,", 20_000) + "1]")
		}
		return done(data)
	}, echo("tool"))
	close(ready)
	r := into[runs.Outcome](s.post("/runs", `{"agent_name":"tool","mode":"sync"}`), 200)
	for _, path := range []string{"/runs/" + r.ID + "/result", "/sessions/" + r.SessionID + "/result"} {
		whole := s.get(path)
		if !strings.Contains(whole.body, data) || strings.Contains(whole.body, "truncated") {
			t.Errorf("%s: %.200s", path, whole.body)
		}
		if same := s.get(path + "?max_bytes=100000"); same.body != whole.body {
			t.Errorf("%s: cut although there is room", path)
		}
		short := s.get(path + "?max_bytes=1000")
		want := `{"result_type":"procedural","result_text":null,"result_data":{"10":1.50,"2":9223372036854775807,` +
			`"text":"` + text[:990] + `","tail":"` + text[:64] + `"},"exit_code":0,"truncated":true,"bytes":`
		if short.status != 200 || !strings.HasPrefix(short.body, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", path, short.body, want)
		}
		if m := short.want(200); int(m["bytes"].(float64)) != len(whole.body) {
			t.Errorf("%s: of %v bytes, there are %d", path, m["bytes"], len(whole.body))
		}
		file := s.get(path + "?download=true")
		id := strings.Split(path, "/")[2]
		if file.body != whole.body || file.header.Get("Content-Type") != "application/octet-stream" ||
			file.header.Get("X-Content-Type-Options") != "nosniff" ||
			file.header.Get("Content-Disposition") != "attachment; filename="+id+".result.json" {
			t.Errorf("%s as a file: %v %.100s", path, file.header, file.body)
		}
		for _, bad := range []string{"max_bytes=0", "max_bytes=x", "download=yes"} {
			name, _, _ := strings.Cut(bad, "=")
			if m := s.get(path + "?" + bad).want(400); m["field"] != name {
				t.Errorf("%s?%s: %v", path, bad, m)
			}
		}
	}

	many := into[runs.Outcome](s.post("/runs", `{"agent_name":"tool","mode":"sync","parameters":{"many":1}}`), 200)
	if m := s.get("/runs/" + many.ID + "/result?max_bytes=1000").want(200); m["result_data"] != nil ||
		m["head"] != ("[" + strings.Repeat("1,", 500))[:1000] || m["truncated"] != true {
		t.Errorf("numbers alone: %.200v", m)
	}

	events := s.get("/sessions/" + r.SessionID + "/events?max_bytes=100")
	var page struct {
		Events []map[string]any
		Next   string
	}
	if err := json.Unmarshal([]byte(events.body), &page); err != nil || page.Next == "" {
		t.Fatal(err, events.body)
	}
	cut := 0
	for _, e := range page.Events {
		if e["truncated"] == true {
			cut++
		}
		if e["run_id"] != r.ID || e["event_type"] == nil {
			t.Errorf("%v", e)
		}
	}
	if cut < 2 || len(events.body) > 4000 {
		t.Errorf("%d events are cut, %d bytes: %s", cut, len(events.body), events.body)
	}
	next, hangUp := s.listen("GET", "/sse/sessions?max_bytes=100&session_id="+r.SessionID, "", "Last-Event-ID: 0-0")
	defer hangUp()
	for _, want := range page.Events {
		item, _ := next()
		for item.name != "event" {
			item, _ = next()
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(item.data), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("the stream has %s, the page %v", item.data, want)
		}
	}
	if file := s.get("/sessions/" + r.SessionID + "/events?download=true"); !strings.Contains(file.body, text) ||
		file.header.Get("Content-Disposition") != "attachment; filename="+r.SessionID+".events.json" {
		t.Errorf("events as a file: %v %.100s", file.header, file.body)
	}
}
