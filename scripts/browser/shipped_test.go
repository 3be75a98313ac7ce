package browser

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shippedForms are the repository's agents with a parameters_schema. Each form is filled in, must send sends, and
// must show an error at its field for each value of wrong.
var shippedForms = []struct {
	agent string
	filled
	sends string
	wrong filled
}{
	{"pr-reviewer", filled{{"$.diff", "+one\n</inputs>"}, {"$.title", "A \"title\""}, {"$.focus[0]", "naming"}},
		`{"diff":"+one\n</inputs>","title":"A \"title\"","focus":["naming"]}`, filled{{"$.diff", ""}}},
	{"parametric-agent", filled{{"$.topic", "rivers"}, {"$.format", "essay"}, {"$.max_words", "50"},
		{"$.audience", "children"}, {"$.prompt", "no lists"}},
		`{"topic":"rivers","format":"essay","max_words":50,"audience":"children","prompt":"no lists"}`,
		filled{{"$.max_words", "2001"}, {"$.format", "Choose…"}}},
	{"content-writer", filled{{"$.topic", "AI Safety"}, {"$.format", "essay"}, {"$.max_words", "500"}},
		`{"topic":"AI Safety","format":"essay","max_words":500}`, filled{{"$.topic", ""}, {"$.max_words", "49"}}},
	{"checksum-tree", filled{{"$.path", "/srv"}, {"$.algorithm", "md5"}, {"$.name", "*.go"}, {"$.summary", "true"},
		{"$.pause_ms", "0"}},
		`{"path":"/srv","algorithm":"md5","name":"*.go","summary":true,"pause_ms":0}`, filled{{"$.pause_ms", "10001"}}},
	{"csv-check", filled{{"$.file", "a.csv"}, {"$.delimiter", ";"}, {"$.columns", "3"}, {"$.no_header", "false"}},
		`{"file":"a.csv","delimiter":";","columns":3,"no_header":false}`,
		filled{{"$.delimiter", "\""}, {"$.columns", "0"}, {"$.file", ""}}},
	{"disk-usage", filled{{"$.path", "/"}, {"$.depth", "2"}, {"$.top", "1000"}, {"$.one_file_system", "true"}},
		`{"path":"/","depth":2,"top":1000,"one_file_system":true}`, filled{{"$.depth", "1.5"}, {"$.top", "0"}}},
	{"hello", filled{{"$.name", "you"}}, `{"name":"you"}`, filled{{"$.name", strings.Repeat("x", 201)}}},
	{"log-grep", filled{{"$.files[0]", "a.log"}, {"$.pattern", "^E[0-9]+"}, {"$.fixed", "false"},
		{"$.ignore_case", "true"}, {"$.invert", "false"}, {"$.max_matches", "5"}},
		`{"files":["a.log"],"pattern":"^E[0-9]+","fixed":false,"ignore_case":true,"invert":false,"max_matches":5}`,
		filled{{"$.files[0]", "a,b"}, {"$.max_matches", "-1"}}},
	{"text-stats", filled{{"$.file", "a.txt"}, {"$.top", "10"}, {"$.min_length", "4"}},
		`{"file":"a.txt","top":10,"min_length":4}`, filled{{"$.min_length", "101"}}},
}

// filled maps paths of fields to values.
type filled []struct{ path, value string }

// TestShippedForms fills in the form of every agent of the repository with a schema.
func TestShippedForms(t *testing.T) {
	s := sharedStack(t)
	missing := map[string]bool{}
	for _, name := range shipped(t) {
		missing[name] = true
	}
	for _, tt := range shippedForms {
		delete(missing, tt.agent)
		t.Run(tt.agent, func(t *testing.T) {
			t.Parallel()
			p := open(t, s, "/ui/new?agent="+tt.agent)
			p.fillIn(tt.filled)
			p.has("It would be accepted")
			if got := member(t, p.sends(), "parameters"); got != tt.sends {
				t.Errorf("the form sends\n%s\nwant\n%s", got, tt.sends)
			}
			p.fillIn(tt.wrong)
			p.click("Start run")
			for _, w := range tt.wrong {
				p.until(at(w.path) + `?.getAttribute("aria-invalid") === "true"`)
			}
		})
	}
	for name := range missing {
		t.Errorf("agent %s is shipped with a schema, and has no row here", name)
	}
}

// shipped returns the names of the repository's agents with a parameters_schema.
func shipped(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("../../worker/agents/*/*/agent.json")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d agents are shipped (%v)", len(files), err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if member(t, string(raw), "parameters_schema") != "" {
			names = append(names, filepath.Base(filepath.Dir(f)))
		}
	}
	return names
}

// fillIn enters each value. It adds list items first.
func (p *page) fillIn(values filled) {
	p.t.Helper()
	for _, v := range values {
		p.until(`document.querySelector("[data-path]:not([data-path='$'])") !== null`)
		if strings.HasSuffix(v.path, "[0]") && !eval[bool](p, at(v.path)+` !== null`) {
			p.click("Add an item")
		}
		p.until(at(v.path))
		if eval[string](p, at(v.path)+`.tagName`) == "SELECT" {
			p.choose(v.path, v.value)
		} else {
			p.fill(v.path, v.value)
		}
	}
}

// sends returns the request body of the form.
func (p *page) sends() string {
	p.t.Helper()
	const card = `document.querySelector('[role=tablist][aria-label="From the command line"]')`
	p.until(`(() => { const tab = ` + card +
		`.lastElementChild; tab.click(); return tab.getAttribute("aria-selected") === "true"; })()`)
	return eval[string](p, card+`.nextElementSibling.querySelector("code").textContent`)
}
