package rules

import (
	"path"
	"regexp"
	"strings"
)

// threatModel matches a test named in a document: folder, dot, name.
var threatModel = regexp.MustCompile("`([a-z][a-z/]*)\\.((?:Test|Fuzz)[A-Za-z0-9_]+)`")

// threatModelTests requires that the tests named in the threat model exist.
func threatModelTests(h *House, say reporter) {
	tests := testsOf(h)
	for _, f := range h.Files {
		if f.Path != "shared/docs/security.md" {
			continue
		}
		for _, m := range threatModel.FindAllStringSubmatch(f.Text, -1) {
			if at := m[1] + "." + m[2]; !tests[at] {
				say("%s: there is no test %s", f.Path, at)
			}
		}
	}
}

// testsOf returns all test functions as folder, dot, name.
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
