package rules

import (
	"fmt"
	"go/ast"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Rule is a rule that holds in the whole tree, with its reason.
type Rule struct {
	Name, Reason string
	check        func(*House, reporter)
}

// reporter notes a violation, as fmt.Printf writes it.
type reporter func(format string, args ...any)

// Broken returns the violations of the rule, each once.
func (r Rule) Broken(h *House) (all []string) {
	r.check(h, func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) })
	slices.Sort(all)
	return slices.Compact(all)
}

// All are the house rules.
var All = []Rule{
	{"imports between our packages",
		"the folder list is the architecture diagram; an import against its direction breaks it", ownImports},
	{"one user for each technology", "what is used in one place can be replaced in one place", foreignImports},
	{"one go.mod for what one program needs", "a build of the server must not fetch what only the command line uses",
		foreignModules},
	{"packages are named for what they provide", "a package without a subject collects everything else", packageNames},
	{"files of code under 500 lines", "a longer file contains two things; tests may be long, they are read one by one",
		fileLength},
	{"clients are small and stand alone", "callers read and copy them, and take no further package with them",
		smallClients},
	{"fixed names at the top level", "the top level must give an overview at a glance", topLevel},
	{"no open notes", "a note in the code is forgotten; do it now, or write an issue", openNotes},
	{"tests do not sleep", "a sleep is too short on a slow machine and too long on a fast one: wait for an event, " +
		"poll with clocktest, or use synctest", noSleeps},
	{"tests named in the threat model exist", "a row without its test is an unproven claim", threatModelTests},
	{"documented commands work", "readers copy them as they stand", copiedCommands},
	{"documented commands keep secrets private", "readers copy commands with their mistakes", documentedSecrets},
	{"what the product writes is private", "a data folder has secrets, and so have agents' files", privateFiles},
	{"JSON is written without HTML's escapes",
		"people read it, what others sent keeps its bytes, and no page here has JSON in its HTML", plainJSON},
	{"batches are cut in a test", "a crash of NATS may keep only the first records of a batch", cutAppends},
	{"error codes match the documentation",
		"programs depend on codes: each must be documented, and each documented one must exist", documentedCodes},
	{"small types", "nobody can review a type with hundreds of methods, and a change to it can break everything",
		smallTypes},
	{"controllers have few dependencies", "a controller must be understandable without the rest", smallControllers},
	{"packages of the coordinator have few importers", "a change to a package must affect few others", fewImporters},
	{"only its owner takes a lock", "taking another type's lock requires knowing when that type takes it", ownLocks},
	{"the dashboard writes no HTML from text", "an agent's answer could run code in the reader's browser", noHTMLSinks},
	{"the dashboard is bundled after each change",
		"a browser loads the bundle, not the modules that are read and changed", bundled},
	{"lines fit on a page", "a longer line is cut off in reviews and beside another file", lineLength},
	{"short sentences on pages", "readers lose a long sentence's beginning before its end", shortSentences},
	{"short sentences in comments", "whoever reads a comment wants to go on with the code", shortComments},
	{"no assignment in an if", "readers take it for a declaration", plainIf},
	{"imports stand in groups", "readers tell the standard library, ours and other modules apart", importGroups},
	{"cited documents exist", "a reference to a document that is not in the repository leads nowhere", citations},
	{"scripts are executable", "each has its executable bit and valid syntax", scripts},
}

const maxLines = 500

var badNames = []string{"util", "utils", "helper", "helpers", "common", "model", "models", "manager", "managers",
	"misc"}

func packageNames(h *House, say reporter) {
	for _, f := range h.Files {
		if f.Go == nil {
			continue
		}
		name := strings.TrimSuffix(f.Go.Name.Name, "_test")
		if slices.Contains(badNames, name) || slices.Contains(badNames, path.Base(path.Dir(f.Path))) {
			say("%s: package %s says nothing about what it provides; use a noun that users "+
				"of the system know", f.Path, name)
		}
	}
}

func fileLength(h *House, say reporter) {
	for f := range h.code {
		if n := strings.Count(f.Text, "\n"); n > maxLines {
			say("%s: %d lines; split it by subject", f.Path, n)
		}
	}
}

var topNames = []string{
	"coordinator", "worker", "shared", "nats", "scripts", "docker-compose*.yml", "go.work", "go.work.sum",
	"README.md", ".ci", ".gitignore", ".dockerignore", ".editorconfig", ".github", "CHANGELOG.md", "CONTRIBUTING.md",
	"LICENSE", "SECURITY.md",
}

func topLevel(h *House, say reporter) {
	for _, f := range h.Files {
		top, _, _ := strings.Cut(f.Path, "/")
		if !slices.ContainsFunc(topNames, func(pattern string) bool {
			ok, _ := path.Match(pattern, top)
			return ok
		}) {
			say("%s: does not belong at the top level; move it into the folder of its subject", top)
		}
	}
}

// openWords is written so that this file does not break its own rule.
var openWords = regexp.MustCompile(`(?:^|[^A-Za-z])(TO[D]O|FIX[M]E|X[X]X)(?:[^A-Za-z]|$)`)

func openNotes(h *House, say reporter) {
	for _, f := range h.Files {
		if f.Go == nil && !f.IsScript() && !slices.Contains([]string{".yml", ".conf", ".md", ".json"},
			path.Ext(f.Path)) && path.Base(f.Path) != "Dockerfile" {
			continue
		}
		for number, line := range f.lines {
			if w := openWords.FindStringSubmatch(line); w != nil {
				say("%s:%d: %s", f.Path, number, w[1])
			}
		}
	}
}

func noSleeps(h *House, say reporter) {
	for _, f := range h.Files {
		if f.Go == nil || !f.IsTest() {
			continue
		}
		ast.Inspect(f.Go, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if ok && isCall(call, "time", "Sleep") {
				say("%s: time.Sleep", f.fset.Position(n.Pos()))
			}
			return !ok || !isCall(call, "synctest", "Test") // time is virtual there
		})
	}
}

func isCall(call *ast.CallExpr, pkg, name string) bool { return isSelector(call.Fun, pkg, name) }

func isSelector(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg
}

func scripts(h *House, say reporter) {
	for _, f := range h.Files {
		if !f.IsScript() {
			continue
		}
		if f.Mode&0o111 == 0 {
			say("%s: is not executable; git update-index --chmod=+x %s", f.Path, f.Path)
		}
		bash := exec.Command("bash", "-n")
		bash.Stdin = strings.NewReader(f.Text)
		if out, err := bash.CombinedOutput(); err != nil {
			say("%s: bash reports a syntax error: %s", f.Path, strings.TrimSpace(string(out)))
		}
	}
}
