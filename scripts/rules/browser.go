package rules

import (
	"fmt"
	"regexp"
	"strings"
)

// The dashboard's own code; what is vendored is searched when its bundles are made.
const (
	browserCode     = "coordinator/dashboard/ui/"
	browserVendored = browserCode + "vendor/"
)

// htmlSinks take text and make elements or code of it.
var htmlSinks = regexp.MustCompile(`\b(innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|srcdoc|document\.write(ln)?|DOMParser|createContextualFragment|setHTMLUnsafe|eval|new Function)\b`)

// textOnly has the dashboard show text as text.
func textOnly(h *House) (broken []string) {
	for _, f := range h.Files {
		if !strings.HasPrefix(f.Path, browserCode) || strings.HasPrefix(f.Path, browserVendored) || !strings.HasSuffix(f.Path, ".js") {
			continue
		}
		for n, line := range strings.Split(f.Text, "\n") {
			if sink := htmlSinks.FindString(line); sink != "" {
				broken = append(broken, fmt.Sprintf("%s:%d uses %s; make elements, and set their text", f.Path, n+1, sink))
			}
		}
	}
	return broken
}
