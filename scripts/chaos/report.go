package main

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// report is the result of a run.
type report struct {
	Seed     uint64 `json:"seed"`
	Mode     string `json:"mode"`
	NATS     int    `json:"nats_servers"`
	Race     bool   `json:"race_detector"`
	OK       bool   `json:"ok"`
	Duration string `json:"duration"`

	Posts         int            `json:"requests"`
	Repeats       int            `json:"of_them_repeats"`
	Runs          map[string]int `json:"runs_by_outcome"`
	Kinds         map[string]int `json:"runs_by_kind"`
	Attempts      int            `json:"attempts_begun"`
	Retried       int            `json:"runs_with_further_attempts"`
	Faults        map[string]int `json:"faults"`
	Children      int            `json:"children_that_call_back"`
	CallbackTurns int            `json:"callback_turns"`
	TurnsNotBegun int            `json:"callback_turns_not_begun"`
	Ledger        string         `json:"ledger"`
	LongestAnswer string         `json:"longest_wait_for_an_answer"`
	NoAnswer      string         `json:"longest_time_without_an_answer"`
	NoEnd         string         `json:"longest_time_without_an_end"`
	StaleReads    int            `json:"reads_behind_an_end_told_elsewhere"`
	LogErrors     int            `json:"error_lines_in_logs"`
	Torn          []tear         `json:"torn,omitempty"`
	Rotten        []rotten       `json:"rotten,omitempty"`

	Wrong []string `json:"wrong,omitempty"`
}

// print prints the result and, for violations, the matching log lines.
func (j *verifier) print() {
	printMu.Lock()
	defer printMu.Unlock()
	r, out := j.r, j.s.out
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name string, value any) { fmt.Fprintf(w, "%s\t%v\n", name, value) }
	fmt.Fprintln(w)
	row("seed", r.Seed)
	row("duration", r.Duration)
	if r.Runs != nil {
		row("requests for runs", fmt.Sprintf("%d, of them repeats %d", r.Posts, r.Repeats))
		row("runs by outcome", formatCounts(r.Runs))
		row("runs by kind", formatCounts(r.Kinds))
		row("attempts started", fmt.Sprintf("%d, runs with further attempts %d", r.Attempts, r.Retried))
		row("children with callbacks", fmt.Sprintf("%d, delivered in %d turns, of which %d were not claimed",
			r.Children, r.CallbackTurns, r.TurnsNotBegun))
		row("faults", formatCounts(r.Faults))
		row("longest", fmt.Sprintf("wait for the answer of one run %s, time without any answer %s, without any end %s",
			r.LongestAnswer, r.NoAnswer, r.NoEnd))
		row("reads behind an end shown by another coordinator", r.StaleReads)
		row("ledger", r.Ledger)
	}
	for i, t := range r.Torn {
		row(fmt.Sprintf("crash %d", i+1), t)
	}
	for i, t := range r.Rotten {
		row(fmt.Sprintf("rot %d", i+1), t)
	}
	row("lines of level ERROR in the logs", r.LogErrors)
	row("violations", len(j.b.wrong))
	w.Flush()
	for i, f := range j.b.wrong {
		if f.repeats > 0 {
			f.what += fmt.Sprintf(" (and %d more times)", f.repeats)
		}
		r.Wrong = append(r.Wrong, f.what)
		fmt.Fprintf(out, "WRONG (seed %d): %s\n", r.Seed, f.what)
		if i < 8 {
			for _, id := range f.ids[:min(len(f.ids), 4)] {
				j.trace(id)
			}
		}
	}
}

// formatCounts formats a map of counts, largest first.
func formatCounts(m map[string]int) string {
	var parts []string
	for _, k := range slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		if m[a] != m[b] {
			return m[b] - m[a]
		}
		return strings.Compare(a, b)
	}) {
		parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(parts, ", ")
}

// maxTraceLines limits the lines shown of a log, the last ones.
const maxTraceLines = 5

// trace prints the lines of all logs about a run, a session or a program.
func (j *verifier) trace(id string) {
	if id == "" {
		return
	}
	files := []string{j.s.path("begun")}
	for _, p := range j.s.all() {
		files = append(files, p.log)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		var found []string
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if strings.Contains(lines.Text(), id) || strings.HasSuffix(name, "/"+id+".log") {
				found = append(found, lines.Text())
				if len(found) > maxTraceLines {
					found = found[1:]
				}
			}
		}
		f.Close()
		for _, line := range found {
			fmt.Fprintf(j.s.out, "    %s: %.400s\n", strings.TrimPrefix(name, j.s.dir+"/"), line)
		}
	}
}
