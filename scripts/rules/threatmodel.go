package rules

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// threatModel is a test that a document points to: its folder, a dot, its name.
var threatModel = regexp.MustCompile("`([a-z][a-z/]*)\\.((?:Test|Fuzz)[A-Za-z0-9_]+)`")

// threatModelTests sees to it that the tests in the threat model exist: a row whose test is gone claims what nothing
// shows.
func threatModelTests(h *House) []string {
	tests := testsOf(h)
	var broken []string
	for _, f := range h.Files {
		if f.Path != "shared/docs/security.md" {
			continue
		}
		for _, m := range threatModel.FindAllStringSubmatch(f.Text, -1) {
			if at := m[1] + "." + m[2]; !tests[at] {
				broken = append(broken, fmt.Sprintf("%s: there is no test %s", f.Path, at))
			}
		}
	}
	return broken
}

// testsOf are all functions of tests, by their folder, a dot, and their name.
func testsOf(h *House) map[string]bool {
	tests := map[string]bool{}
	for _, f := range h.Files {
		if f.IsTest() {
			for line := range strings.Lines(f.Text) {
				if name, ok := strings.CutPrefix(line, "func "); ok {
					name, _, _ = strings.Cut(name, "(")
					tests[path.Dir(f.Path)+"."+name] = true
				}
			}
		}
	}
	return tests
}
