package rules

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxColumns is the longest line of Go code. A tab counts as four columns.
const maxColumns = 120

// longLines are the files with lines that cannot be cut.
var longLines = []string{
	"shared/schema/suite_test.go", // names of the official suite's tests, as keys of a map
}

// lineLength limits the lines of Go code, except in generated files.
func lineLength(h *House, say reporter) {
	for _, f := range h.Files {
		if f.Go == nil || ast.IsGenerated(f.Go) || slices.Contains(longLines, f.Path) {
			continue
		}
		for number, line := range f.lines {
			if n := utf8.RuneCountInString(line) + 3*strings.Count(line, "\t"); n > maxColumns {
				say("%s:%d: %d columns, the limit is %d", f.Path, number, n, maxColumns)
			}
		}
	}
}

// plainIf forbids assignments to existing variables in the head of an if: readers take them for declarations.
func plainIf(h *House, say reporter) {
	for _, f := range h.Files {
		if f.Go == nil {
			continue
		}
		ast.Inspect(f.Go, func(n ast.Node) bool {
			if s, ok := n.(*ast.IfStmt); ok {
				if a, ok := s.Init.(*ast.AssignStmt); ok && a.Tok == token.ASSIGN {
					say("%s: an assignment in an if; put it on its own line", f.fset.Position(a.Pos()))
				}
			}
			return true
		})
	}
}

// importGroups requires an empty line between imports of the standard library, of ours and of other modules.
func importGroups(h *House, say reporter) {
	for _, f := range h.Files {
		if f.Go == nil {
			continue
		}
		origin, line := "", 0
		for _, spec := range f.Go.Imports {
			first, _, _ := strings.Cut(strings.Trim(spec.Path.Value, `"`), "/")
			was, before := origin, line
			origin, line = "std", f.fset.Position(spec.Pos()).Line
			if first == "ao" || strings.Contains(first, ".") {
				origin = map[bool]string{true: "ours", false: "others"}[first == "ao"]
			}
			if origin != was && line == before+1 && before > 0 {
				say("%s:%d: put an empty line before the import of %s", f.Path, line, spec.Path.Value)
			}
		}
	}
}

// Citations of documents in comments.
var (
	citedSection  = regexp.MustCompile(`(?i)\b(?:contract|design)(?:'s)? sections? \d+`)
	citedPage     = regexp.MustCompile(`\bdocs/[\w/.-]+\.md\b`)
	citedDecision = regexp.MustCompile(`\bdecisions? (\d{4})\b|\b(\d{4}-[a-z]+-[a-z-]*[a-z])\b`)
)

// citations requires that the documents cited in comments exist in the repository.
func citations(h *House, say reporter) {
	exists := func(cited string) bool {
		return slices.ContainsFunc(h.Files, func(f File) bool {
			return f.Path == cited || strings.HasSuffix(f.Path, "/"+cited)
		})
	}
	decision := func(number string) bool {
		return slices.ContainsFunc(h.Files, func(f File) bool {
			return path.Base(path.Dir(f.Path)) == "decisions" && strings.HasPrefix(path.Base(f.Path), number)
		})
	}
	for _, f := range h.Files {
		for number, text := range comments(f) {
			absent := citedSection.FindAllString(text, -1)
			for _, cited := range citedPage.FindAllString(text, -1) {
				if !exists(cited) {
					absent = append(absent, cited)
				}
			}
			for _, m := range citedDecision.FindAllStringSubmatch(text, -1) {
				if !decision(m[1] + m[2]) {
					absent = append(absent, m[0])
				}
			}
			for _, cited := range absent {
				say("%s:%d: %s is not in the repository; "+
					"say the rule, or link a page of shared/docs", f.Path, number, cited)
			}
		}
	}
}

// comments returns the comments of a Go file, a script or a module of the dashboard, by their lines.
func comments(f File) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		if f.Go != nil {
			for _, group := range f.Go.Comments {
				if !yield(f.fset.Position(group.Pos()).Line, strings.Join(strings.Fields(group.Text()), " ")) {
					return
				}
			}
			return
		}
		mark := "#"
		switch {
		case path.Ext(f.Path) == ".js" && !strings.Contains(f.Path, "/vendor/"):
			mark = "//"
		case !f.IsScript() && path.Ext(f.Path) != ".yml" && path.Ext(f.Path) != ".conf":
			return
		}
		for number, line := range f.lines {
			if _, text, ok := strings.Cut(line, mark); ok && !yield(number, text) {
				return
			}
		}
	}
}
