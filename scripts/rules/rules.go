package rules

import (
	"fmt"
	"go/ast"
	"go/token"
	"math"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A Rule says what holds everywhere in the house, and why.
type Rule struct {
	Name   string
	Reason string
	Broken func(*House) []string // a line for each place that breaks it
}

// All are the rules of the house.
var All = []Rule{
	{"arrows between our packages", "the folder list is the architecture diagram; an arrow the other way makes it a lie", ownImports},
	{"one door for each technology", "what is known in one place can be replaced in one place", foreignImports},
	{"one go.mod for what one program needs", "who builds a server does not fetch, scan and update what only the command line uses", foreignModules},
	{"packages are named for what they provide", "a package without a subject collects what nobody wants to place", packageNames},
	{"files of code under 500 lines", "a longer file holds two things; tests may be long, they are read one by one", fileLength},
	{"the top level is the user's", "who opens the repository sees the rooms and nothing else", topLevel},
	{"nothing is left open", "a note in the code is seen by nobody; do it now, or write an issue", openNotes},
	{"tests do not sleep", "a sleep is too short on a slow machine and too long on a fast one: wait for an event, poll to a deadline, or use synctest", noSleeps},
	{"what the threat model shows is there", "a row whose test is gone claims what nothing shows", threatModelTests},
	{"documented commands keep secrets closed", "who copies a command from a document copies its mistakes", documentedSecrets},
	{"records written together are cut in a test", "a crash of NATS may leave the first of them, whatever a batch promises", cutAppends},
	{"the codes of errors are the codes on the pages", "programs branch on codes: one that is on no page surprises them, one that is never sent misleads them", documentedCodes},
	{"nobody knows everybody", "a type with two hundred methods is read by nobody, and a change to it can break everything", smallTypes},
	{"a controller asks of few", "what asks everybody has to be understood with everybody", smallControllers},
	{"a package of the coordinator has few users", "what everybody imports cannot be changed without everybody", fewImporters},
	{"a lock is its owner's", "who takes another type's lock has to know when that type takes it too", ownLocks},
	{"the dashboard makes no HTML of text", "what an agent answered would run in the browser of who reads it", noHTMLSinks},
	{"the dashboard is bundled after each change", "a browser loads the bundle, not the modules that are read and changed", bundled},
	{"scripts can be started", "each has its run bit and is readable to bash", scripts},
}

const maxLines = 500

var badNames = []string{"util", "utils", "helper", "helpers", "common", "model", "models", "manager", "managers", "misc"}

func packageNames(h *House) []string {
	var broken []string
	for _, f := range h.Files {
		if f.Go == nil {
			continue
		}
		dir := path.Base(path.Dir(f.Path))
		name := strings.TrimSuffix(f.Go.Name.Name, "_test")
		if slices.Contains(badNames, name) || slices.Contains(badNames, dir) {
			broken = append(broken, fmt.Sprintf("%s: package %s says nothing about what it provides; name it with a noun that a user of the system would say", f.Path, name))
		}
	}
	return broken
}

func fileLength(h *House) []string {
	var broken []string
	for _, f := range h.Files {
		if n := strings.Count(f.Text, "\n"); f.Go != nil && !f.IsTest() && n > maxLines {
			broken = append(broken, fmt.Sprintf("%s: %d lines; find the two things in it and give each its file", f.Path, n))
		}
	}
	return broken
}

var topNames = []string{
	"coordinator", "worker", "shared", "nats", "scripts", "docker-compose*.yml", "go.work", "go.work.sum",
	"README.md", ".ci", ".gitignore", ".dockerignore", ".editorconfig", ".github", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "SECURITY.md",
}

func topLevel(h *House) []string {
	var broken []string
	seen := map[string]bool{}
	for _, f := range h.Files {
		top, _, _ := strings.Cut(f.Path, "/")
		fixed := slices.ContainsFunc(topNames, func(pattern string) bool { ok, _ := path.Match(pattern, top); return ok })
		if !fixed && !seen[top] {
			broken = append(broken, fmt.Sprintf("%s: does not belong at the top; find the room that it belongs to", f.Path))
		}
		seen[top] = true
	}
	return broken
}

// Composed, so that this file does not break its own rule.
var openWords = []string{"TO" + "DO", "FIX" + "ME", "XX" + "X"}

func openNotes(h *House) []string {
	var broken []string
	for _, f := range h.Files {
		if f.Go == nil && !f.IsScript() && !slices.Contains([]string{".yml", ".conf", ".md", ".json"}, path.Ext(f.Path)) && path.Base(f.Path) != "Dockerfile" {
			continue
		}
		number := 0
		for line := range strings.Lines(f.Text) {
			number++
			for _, w := range strings.FieldsFunc(line, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') }) {
				if slices.Contains(openWords, w) {
					broken = append(broken, fmt.Sprintf("%s:%d: %s", f.Path, number, w))
				}
			}
		}
	}
	return broken
}

func noSleeps(h *House) []string {
	var broken []string
	for _, f := range h.Files {
		if f.Go == nil || !f.IsTest() {
			continue
		}
		var loops []*ast.ForStmt
		ast.Inspect(f.Go, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ForStmt:
				loops = append(loops, n)
			case *ast.CallExpr:
				if isCall(n, "synctest", "Test") {
					return false // in its bubble time is virtual and a sleep takes none
				}
				polls := slices.ContainsFunc(loops, func(l *ast.ForStmt) bool { return l.Pos() <= n.Pos() && n.Pos() < l.End() }) && isPoll(n)
				if isCall(n, "time", "Sleep") && !polls {
					broken = append(broken, fmt.Sprintf("%s: time.Sleep", f.fset.Position(n.Pos())))
				}
			}
			return true
		})
	}
	return broken
}

// isPoll says that a sleep is one of 5 ms at most, as between two looks at something that is to become true.
func isPoll(sleep *ast.CallExpr) bool {
	if len(sleep.Args) != 1 {
		return false
	}
	unit, most, count := sleep.Args[0], 0, 1
	if by, ok := unit.(*ast.BinaryExpr); ok && by.Op == token.MUL {
		literal, ok := by.X.(*ast.BasicLit)
		if !ok {
			return false
		}
		unit, count = by.Y, math.MaxInt
		if n, err := strconv.Atoi(literal.Value); err == nil {
			count = n
		}
	}
	switch {
	case isSelector(unit, "time", "Millisecond"):
		most = 5
	case isSelector(unit, "time", "Microsecond"):
		most = 5000
	}
	return count <= most
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

func scripts(h *House) []string {
	var broken []string
	for _, f := range h.Files {
		if !f.IsScript() {
			continue
		}
		if f.Mode&0o111 == 0 {
			broken = append(broken, fmt.Sprintf("%s: has no run bit; git update-index --chmod=+x %s", f.Path, f.Path))
		}
		bash := exec.Command("bash", "-n")
		bash.Stdin = strings.NewReader(f.Text)
		if out, err := bash.CombinedOutput(); err != nil {
			broken = append(broken, fmt.Sprintf("%s: bash cannot read it: %s", f.Path, strings.TrimSpace(string(out))))
		}
	}
	return broken
}
