package rules

import (
	"go/ast"
	"maps"
	"slices"
)

// smallControllers limits the dependencies of a controller and their interfaces. A function field counts as a
// dependency.
func smallControllers(h *House, say reporter) {
	types := typesOf(h)
	for _, at := range slices.Sorted(maps.Keys(types)) {
		t := types[at]
		s, ok := t.is.(*ast.StructType)
		if !ok || !covers("ao/coordinator/control/...", t.pkg) {
			continue
		}
		asked := types.asked(s, t.place)
		if len(asked) > maxAsked {
			say("%s asks %d interfaces and functions, %d are the most: put together "+
				"what belongs together where it is wired", at, len(asked), maxAsked)
		}
		for _, n := range asked {
			if n > maxAskedOf {
				say("%s asks an interface of %d methods, %d are the most", at, n, maxAskedOf)
			}
		}
	}
}

// asked returns the number of methods of each dependency of a struct, 1 for a function, including those of embedded
// structs.
func (d declared) asked(s *ast.StructType, at place) (all []int) {
	for _, f := range s.Fields.List {
		t, where := d.resolve(f.Type, at)
		n := 0
		switch t := t.(type) {
		case *ast.InterfaceType:
			n = d.methods(t, where)
		case *ast.FuncType:
			n = 1
		case *ast.StructType:
			_, unnamed := f.Type.(*ast.StructType)
			if t != s && (unnamed || len(f.Names) == 0 && covers("ao/coordinator/control/...", where.pkg)) {
				all = append(all, d.asked(t, where)...)
			}
		}
		for range max(1, len(f.Names)) {
			if n > 0 {
				all = append(all, n)
			}
		}
	}
	return all
}
