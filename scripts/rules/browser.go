package rules

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// The dashboard's own code, its bundle with the hashes of its modules, and the vendored bundles, which are checked
// when they are built.
const (
	browserCode     = "coordinator/dashboard/ui/"
	browserBundle   = browserCode + "dist/"
	browserSources  = browserBundle + "sources.txt"
	browserVendored = browserCode + "vendor/"
)

// htmlSinks turn text into elements or code.
var htmlSinks = regexp.MustCompile(`\b(innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|srcdoc|` +
	`document\.write(ln)?|DOMParser|createContextualFragment|setHTMLUnsafe|eval|new Function)\b`)

// noHTMLSinks forbids HTML sinks in the dashboard.
func noHTMLSinks(h *House, say reporter) {
	for _, f := range h.Files {
		if !strings.HasPrefix(f.Path, browserCode) || strings.HasPrefix(f.Path, browserVendored) ||
			!strings.HasSuffix(f.Path, ".js") {
			continue
		}
		for n, line := range strings.Split(f.Text, "\n") {
			if sink := htmlSinks.FindString(line); sink != "" {
				say("%s:%d uses %s; make elements, and set their text", f.Path, n+1, sink)
			}
		}
	}
}

// bundled compares each module of the dashboard with its hash in the bundle.
func bundled(h *House, say reporter) {
	got, want := map[string]string{}, map[string]string{}
	for _, f := range h.Files {
		name, own := strings.CutPrefix(f.Path, browserCode)
		switch {
		case f.Path == browserSources:
			for line := range strings.Lines(f.Text) {
				sum, name, _ := strings.Cut(strings.TrimSpace(line), " ")
				want[name] = sum
			}
		case own && path.Ext(name) == ".js" && !strings.HasPrefix(f.Path, browserBundle) &&
			!strings.HasPrefix(f.Path, browserVendored):
			sum := sha256.Sum256([]byte(f.Text))
			got[name] = fmt.Sprintf("%x", sum[:8])
		}
	}
	all := maps.Clone(got)
	maps.Copy(all, want)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if got[name] != want[name] {
			say("%s%s is not as it was bundled; run scripts/bundles/app", browserCode, name)
		}
	}
}
