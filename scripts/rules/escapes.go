package rules

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
)

// escapesIn lists the functions that write JSON with <, > and & escaped, and why nobody sees that.
var escapesIn = map[string]string{
	"coordinator/runs/bulk.go:filterKey":   "a key that other versions compare",
	"shared/agent/agent.go:Hash":           "a hash that other versions compare",
	"shared/runnerapi/runner.go:ID":        "a hash that is part of ids",
	"shared/runnerapi/runner.go:TaskQueue": "a hash that is part of subjects",
}

// plainJSON refuses encoding/json where it escapes <, > and &, also in JSON of others that is part of a value. It
// accepts an encoder that has this switched off in the same function.
func plainJSON(h *House, say reporter) {
	left := maps.Clone(escapesIn)
	for f := range h.code {
		if covers("ao/scripts/...", f.Package()) || covers("ao/shared/clients/...", f.Package()) { // no one reads it
			continue
		}
		for _, d := range f.Go.Decls {
			what := escaping(d)
			if what == "" {
				continue
			}
			at := f.Path
			if fn, ok := d.(*ast.FuncDecl); ok {
				at += ":" + fn.Name.Name
			}
			if _, ok := left[at]; !ok && escapesIn[at] == "" {
				say("%s: json.%s shows people \\u0026 for &; use strictjson.Encode", at, what)
			}
			delete(left, at)
		}
	}
	for _, at := range slices.Sorted(maps.Keys(left)) {
		file, _, _ := strings.Cut(at, ":")
		if slices.ContainsFunc(h.Files, func(f File) bool { return f.Path == file }) {
			say("%s escapes nothing any more; take it out of scripts/rules/escapes.go", at)
		}
	}
}

// escaping returns the function of encoding/json by which a declaration escapes; empty: by none.
func escaping(d ast.Decl) (what string) {
	plain := false
	ast.Inspect(d, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		switch {
		case !ok:
		case s.Sel.Name == "SetEscapeHTML":
			plain = true
		case isSelector(s, "json", "Marshal") || isSelector(s, "json", "MarshalIndent"):
			what = s.Sel.Name
		case isSelector(s, "json", "NewEncoder") && what == "":
			what = s.Sel.Name
		}
		return true
	})
	if what == "NewEncoder" && plain {
		return ""
	}
	return what
}
