package rules

import "go/ast"

// declared are our named types, by package and name.
type declared map[string]declaration

type declaration struct {
	place
	is    ast.Expr
	alias bool
}

// place is the place of a type: its package, and the names of our packages in its file.
type place struct {
	pkg  string
	ours map[string]string
}

func typesOf(h *House) declared {
	all := declared{}
	for f := range h.code {
		at := place{f.Package(), oursIn(f)}
		ast.Inspect(f.Go, func(n ast.Node) bool {
			if s, ok := n.(*ast.TypeSpec); ok {
				all[at.pkg+"."+s.Name.Name] = declaration{at, s.Type, s.Assign.IsValid()}
			}
			return true
		})
	}
	return all
}

// resolve returns a type's definition behind its names, with its place.
func (d declared) resolve(t ast.Expr, at place) (ast.Expr, place) {
	for range 10 { // limits chains of names
		name := ""
		switch x := t.(type) {
		case *ast.ParenExpr:
			t = x.X
			continue
		case *ast.StarExpr:
			t = x.X
			continue
		case *ast.Ident:
			name = at.pkg + "." + x.Name
		case *ast.SelectorExpr:
			if p, ok := x.X.(*ast.Ident); ok && at.ours[p.Name] != "" {
				name = at.ours[p.Name] + "." + x.Sel.Name
			}
		}
		next, ok := d[name]
		if !ok {
			return t, at
		}
		t, at = next.is, next.place
	}
	return t, at
}

// methods counts the methods of an interface, including those of our embedded interfaces.
func (d declared) methods(t *ast.InterfaceType, at place) (n int) {
	for _, m := range t.Methods.List {
		if len(m.Names) > 0 {
			n += len(m.Names)
		} else if in, where := d.resolve(m.Type, at); in != t {
			if in, ok := in.(*ast.InterfaceType); ok {
				n += d.methods(in, where)
			}
		}
	}
	return n
}

// foreignFields counts a struct's fields with types of our other packages, including nested structs.
func (d declared) foreignFields(s *ast.StructType, at place) (n int) {
	for _, f := range s.Fields.List {
		if in, ok := f.Type.(*ast.StructType); ok {
			n += d.foreignFields(in, at)
			continue
		}
		if d.foreign(f.Type, at) {
			n += max(1, len(f.Names))
		}
	}
	return n
}

// foreign reports whether a type is built from one of our other packages.
func (d declared) foreign(t ast.Expr, at place) (found bool) {
	ast.Inspect(t, func(x ast.Node) bool {
		switch x := x.(type) {
		case *ast.SelectorExpr:
			p, ok := x.X.(*ast.Ident)
			found = found || ok && at.ours[p.Name] != ""
		case *ast.Ident:
			if a := d[at.pkg+"."+x.Name]; a.alias {
				found = found || d.foreign(a.is, a.place)
			}
		}
		return !found
	})
	return found
}
