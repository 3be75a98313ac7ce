package rules

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
)

// prefixTest is the common part of their names.
const prefixTest = "coordinator/serve/parts.TestAPrefixOf"

// cutIn lists every function that writes several records as one batch, with the test that cuts the batch after each
// record (shared/docs/decisions/0033-what-is-written-together-may-be-cut.md).
var cutIn = map[string]string{
	"coordinator/runs/submit.go:store":                 prefixTest + "ASessionAndItsRun",
	"coordinator/control/callback/callback.go:Deliver": prefixTest + "ACallback",
	"coordinator/control/dispatch/dispatch.go:write":   prefixTest + "QueuedRuns",
	"coordinator/record/waiting.go:EndWaiting":         prefixTest + "TheEndOfAWaitingRun",
	"coordinator/record/endwriter.go:endIfUnreported":  prefixTest + "TheEndOfAnAttemptWithASchema",
	// what those before have written, once more
	"coordinator/record/endwriter.go:endBehindUnreadable": prefixTest + "TheEndOfAWaitingRun",
	"coordinator/record/writer.go:AppendBatch":            "", // those above call it, or the next
	"coordinator/record/writer.go:AppendEither":           "",
}

// cutAppends requires a row for each function that writes a batch, outside tests and scripts, the row's test, and no
// other rows.
func cutAppends(h *House, say reporter) {
	tests, left := testsOf(h), maps.Clone(cutIn)
	for f := range h.code {
		if covers("ao/scripts/...", f.Package()) {
			continue
		}
		for _, d := range f.Go.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !appendsBatch(fn) {
				continue
			}
			at := f.Path + ":" + fn.Name.Name
			test, ok := cutIn[at]
			delete(left, at)
			switch {
			case !ok:
				say("%s: %s writes several records at once; cut them behind each in a "+
					"test, and name it in scripts/rules/appends.go", f.Path, fn.Name.Name)
			case test != "" && !tests[test]:
				say("%s: there is no test %s, which is to cut what %s writes", f.Path, test, fn.Name.Name)
			}
		}
	}
	for _, at := range slices.Sorted(maps.Keys(left)) {
		file, _, _ := strings.Cut(at, ":")
		if slices.ContainsFunc(h.Files, func(f File) bool { return f.Path == file }) {
			say("%s writes no batch any more; take it out of scripts/rules/appends.go", at)
		}
	}
}

// appendsBatch reports whether a function calls AppendBatch of the bus, or of the writer.
func appendsBatch(fn *ast.FuncDecl) (found bool) {
	ast.Inspect(fn, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			s, ok := call.Fun.(*ast.SelectorExpr)
			found = found || ok && (s.Sel.Name == "AppendBatch" || s.Sel.Name == "AppendEither")
		}
		return !found
	})
	return found
}
