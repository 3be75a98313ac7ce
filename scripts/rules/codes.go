package rules

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// codePages are the pages whose tables say what the codes of a package's errors mean; http.md says it for all others.
// The tests' executor and the stand-in for claude have none, and ao's own are told by its help.
var codePages = []struct{ packages, page string }{
	{"ao/coordinator/cmd/...", ""},
	{"ao/worker/testexec/...", ""},
	{"ao/worker/claudecode/standin/...", ""},
	{"ao/scripts/...", ""},
	{"ao/worker/claudecode", "shared/docs/claude-code.md"},
	{"ao/worker/llm/...", "shared/docs/llm.md"},
	{"ao/worker/gateway", "shared/docs/gateway.md"},
	{"ao/...", httpPage},
}

const httpPage = "shared/docs/http.md"

func codePage(pkg string) string {
	for _, p := range codePages {
		if covers(p.packages, pkg) {
			return p.page
		}
	}
	return ""
}

// What a code is told by: the answer to a request, or the end of a run. A fault's kind tells: one that is internal has
// a code of its own only where it ends a run.
const (
	byAnswer = "the HTTP answers"
	byEnd    = "the ends of runs"
)

// documentedCodes holds the codes in the source against those in the pages' tables, both ways.
func documentedCodes(h *House) []string {
	told, broken := codesOf(h)
	tables := codeTables(h)
	for _, c := range told {
		if by, in := c.missing(tables); in != "" {
			broken = append(broken, fmt.Sprintf("%s: the code %s is in no table of %s in %s", c.at, c.code, or(by, "codes"), in))
		}
	}
	broken = append(broken, unusedCodes(told, tables)...)
	slices.Sort(broken)
	return slices.Compact(broken)
}

// missing is the page, and its tables, that should have a code and have not; empty: none.
func (c usedCode) missing(tables map[string]map[string]bool) (by, in string) {
	by, in = c.by(), codePage(c.pkg)
	if by == byAnswer && tables[httpPage+by][c.code] {
		return "", ""
	}
	if by == "" || in != httpPage {
		by = ""
	}
	if !tables[in+by][c.code] && (by != "" || !tables[httpPage][c.code]) {
		return by, in
	}
	return "", ""
}

// unusedCodes are the codes of the tables that nothing tells.
func unusedCodes(told []usedCode, tables map[string]map[string]bool) (broken []string) {
	source := map[string]bool{} // every code, and by what it is told
	for _, c := range told {
		by := c.by()
		source[c.code] = true
		source[byAnswer+c.code] = source[byAnswer+c.code] || by == byAnswer || by == "" && !covers("ao/worker/...", c.pkg)
	}
	for _, page := range slices.Sorted(maps.Keys(tables)) {
		file, by, _ := strings.Cut(page, ".md")
		if by == byEnd { // a run may end with the error of a request: every one counts
			continue
		}
		for _, code := range slices.Sorted(maps.Keys(tables[page])) {
			if by == "" && !source[code] || by == byAnswer && file+".md" == httpPage && source[code] && !source[byAnswer+code] {
				broken = append(broken, fmt.Sprintf("%s.md: nothing tells the code %s%s", file, code, map[bool]string{true: " as " + by}[by != ""]))
			}
		}
	}
	return broken
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// by says what the code is told by; empty: by either.
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

// codeTables are the codes in the pages' tables that have a column "code": of each page, and of its tables of answers,
// which have a column "HTTP" too, and of ends.
func codeTables(h *House) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for _, f := range h.Files {
		if path.Dir(f.Path) != "shared/docs" || path.Ext(f.Path) != ".md" {
			continue
		}
		var head []string // of the table that is being read
		for line := range strings.Lines(f.Text) {
			if !strings.HasPrefix(line, "|") {
				head = nil
				continue
			}
			row := cells(line)
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

func cells(line string) []string {
	row := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
	for i := range row {
		row[i] = strings.TrimSpace(row[i])
	}
	return row
}
