package rules

import "go/ast"

// declared is the types of the house that have a name, by package and name.
type declared map[string]declaration

type declaration struct {
	place
	is    ast.Expr
	alias bool
}

// place is where a type is written: its package, and by which names it knows other packages of ours.
type place struct {
	pkg  string
	ours map[string]string
}

func typesOf(h *House) declared {
	all := declared{}
	for _, f := range h.Files {
		if f.Go == nil || f.IsTest() {
			continue
		}
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

// resolve is what a type is in the end, behind its names, and where that is written.
func (d declared) resolve(t ast.Expr, at place) (ast.Expr, place) {
	for range 10 { // a name for a name for a name
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

// methods counts those of an interface, with those of the interfaces of ours that it embeds.
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

// foreignFields counts a struct's fields whose types are of other packages of ours, those of structs within it too.
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

// foreign reports whether a type is made of one of another package of ours, by whatever name.
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
