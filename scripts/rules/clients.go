package rules

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

const clientsFolder = "shared/clients/"

// clientLines is how long a client may be; others: maxLines.
var clientLines = map[string]int{"go": 1200} // ao is built on it

// smallClients checks the libraries for callers: each is short, fits on a page, and needs nothing but its language.
// What Python imports is checked by its test, which runs without other packages.
func smallClients(h *House, say reporter) {
	lines := map[string]int{}
	for _, f := range h.Files {
		ext := path.Ext(f.Path)
		if !strings.HasPrefix(f.Path, clientsFolder) || !slices.Contains([]string{".go", ".py", ".ts", ".mod"}, ext) {
			continue
		}
		client, _, _ := strings.Cut(strings.TrimPrefix(f.Path, clientsFolder), "/")
		for number, line := range f.lines {
			if utf8.RuneCountInString(line) > maxColumns {
				say("%s:%d: over %d columns", f.Path, number, maxColumns)
			}
			needs := map[string]string{".ts": "import ", ".mod": "require"}[ext]
			if needs != "" && strings.HasPrefix(line, needs) {
				say("%s:%d: needs a package: %s", f.Path, number, strings.TrimSpace(line))
			}
		}
		if ext != ".mod" && !strings.HasSuffix(f.Path, "_test.go") {
			lines[client] += strings.Count(f.Text, "\n")
		}
	}
	for _, client := range slices.Sorted(maps.Keys(lines)) {
		if lines[client] >= cmp.Or(clientLines[client], maxLines) {
			say("%s%s: %d lines", clientsFolder, client, lines[client])
		}
	}
}
