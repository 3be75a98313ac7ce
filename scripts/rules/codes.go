package rules

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
)

// codePages are the pages with the error codes of packages; all other codes are in errors.md, which is made from
// codeTable. The test executor and the simulated claude have none, and ao documents its own in its help.
var codePages = []struct{ packages, page string }{
	{"ao/coordinator/cmd/...", ""},
	{"ao/worker/testexec/...", ""},
	{"ao/worker/claudecode/standin/...", ""},
	{"ao/scripts/...", ""},
	{"ao/worker/claudecode", "shared/docs/claude-code.md"},
	{"ao/worker/llm/...", "shared/docs/llm.md"},
	{"ao/worker/gateway", "shared/docs/gateway.md"},
	{"ao/...", errorPage},
}

const (
	errorPage = "shared/docs/reference/errors.md"
	codeTable = "shared/fault/table.go" // its literals do not count as uses
)

func codePage(pkg string) string {
	for _, p := range codePages {
		if covers(p.packages, pkg) {
			return p.page
		}
	}
	return ""
}

// Where a code occurs: in the answer to a request, or in the end of a run. The fault's kind decides: an internal one
// has its own code only in the end of a run.
const (
	byAnswer = "the HTTP answers"
	byEnd    = "the ends of runs"
)

// documentedCodes compares the codes in the source with those in the pages' tables, both ways.
func documentedCodes(h *House, say reporter) {
	s, tables := codesOf(h), codeTables(h)
	for _, c := range s.found {
		if by, in := c.missing(tables); in != "" {
			say("%s: the code %s is in no table of %s in %s", c.at, c.code, cmp.Or(by, "codes"), in)
		}
	}
	s.unused(tables, say)
}

// missing returns the page and tables that lack a code; empty: none.
func (c usedCode) missing(tables map[string]map[string]bool) (by, in string) {
	by, in = c.by(), codePage(c.pkg)
	if by == byAnswer && tables[errorPage+by][c.code] {
		return "", ""
	}
	if by == "" || in != errorPage {
		by = ""
	}
	if !tables[in+by][c.code] && (by != "" || !tables[errorPage][c.code]) {
		return by, in
	}
	return "", ""
}

// unused reports the codes in the pages' tables that occur nowhere in the source.
func (s *codeSource) unused(tables map[string]map[string]bool, say reporter) {
	for page, codes := range tables {
		if !strings.HasSuffix(page, ".md") {
			continue
		}
		for code := range codes {
			if !s.literals[page][code] && !s.literals[errorPage][code] {
				say("%s: nothing uses the code %s", page, code)
			}
		}
	}
}

// by returns where the code occurs; empty: in both.
func (c usedCode) by() string {
	tree, _, _ := strings.Cut(strings.TrimPrefix(c.pkg, "ao/"), "/")
	switch {
	case c.kind == "" || tree == "worker":
		return ""
	case c.kind == "Internal":
		return byEnd
	}
	return byAnswer
}

var quotedCode = regexp.MustCompile("`([A-Za-z_]+)`")

// codeTables returns the codes in the pages' tables with a column "code", per page and kind of table. Tables of answers
// also have a column "HTTP"; the others are tables of ends.
func codeTables(h *House) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for _, f := range h.Files {
		if path.Dir(f.Path) != "shared/docs" && f.Path != errorPage || path.Ext(f.Path) != ".md" {
			continue
		}
		var head []string // header of the current table
		for line := range strings.Lines(f.Text) {
			if !strings.HasPrefix(line, "|") {
				head = nil
				continue
			}
			row := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			for i := range row {
				row[i] = strings.TrimSpace(row[i])
			}
			if head == nil {
				head = row
				continue
			}
			column, by := slices.Index(head, "code"), byEnd
			if column < 0 || column >= len(row) {
				continue
			}
			if slices.Contains(head, "HTTP") {
				by = byAnswer
			}
			for _, m := range quotedCode.FindAllStringSubmatch(row[column], -1) {
				for _, table := range []string{f.Path, f.Path + by} {
					if all[table] == nil {
						all[table] = map[string]bool{}
					}
					all[table][m[1]] = true
				}
			}
		}
	}
	return all
}
