package rules

import (
	"go/ast"
	"go/token"
	"slices"
)

// ownLocks allows only methods of a type to take its lock. Go has no generic methods, so a function beside the type
// counts as one.
func ownLocks(h *House, say reporter) {
	for f := range h.code {
		if !anyCovers([]string{"ao/coordinator/...", "ao/worker/...", "ao/nats/...", "ao/shared/..."}, f.Package()) {
			continue
		}
		globals, types := beside(f.Go)
		for _, d := range f.Go.Decls {
			own := slices.Clone(globals)
			if fn, ok := d.(*ast.FuncDecl); ok {
				own = append(own, owners(fn, types)...)
			}
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if foreignLock(n, own) {
						say("%s: takes the lock of another type: %s", f.fset.Position(n.Pos()), f.Package())
					}
				case *ast.StructType:
					for _, field := range n.Fields.List {
						if isMutex(field.Type) && (len(field.Names) == 0 || ast.IsExported(field.Names[0].Name)) {
							say("%s: a lock that everybody can take; name its field mu", f.fset.Position(field.Pos()))
						}
					}
				}
				return true
			})
		}
	}
}

// beside returns a file's package-level variables of unnamed types, and its types.
func beside(f *ast.File) (globals, types []string) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range g.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				types = append(types, s.Name.Name)
			case *ast.ValueSpec:
				if g.Tok == token.VAR && (isStruct(s.Type) || len(s.Values) == 1 && isLiteral(s.Values[0])) {
					globals = append(globals, s.Names[0].Name)
				}
			}
		}
	}
	return globals, types
}

// owners returns the names whose locks a function may take: its receiver, or parameters of types in the same file.
func owners(fn *ast.FuncDecl, types []string) (own []string) {
	if fn.Recv != nil {
		for _, name := range fn.Recv.List[0].Names {
			own = append(own, name.Name)
		}
		return own
	}
	for _, p := range fn.Type.Params.List {
		if t := typeName(p.Type); slices.Contains(types, t) {
			for _, name := range p.Names {
				own = append(own, name.Name)
			}
		}
	}
	return own
}

// foreignLock reports whether a selector takes a lock of another owner. A lock that is a plain variable has no owner.
func foreignLock(lock *ast.SelectorExpr, own []string) bool {
	if !slices.Contains([]string{"Lock", "RLock", "TryLock", "TryRLock"}, lock.Sel.Name) {
		return false
	}
	mu, ok := lock.X.(*ast.SelectorExpr)
	if !ok {
		_, plain := lock.X.(*ast.Ident)
		return !plain
	}
	owner, ok := mu.X.(*ast.Ident)
	if ok && owner.Name == "syscall" { // syscall.ForkLock is meant to be taken
		return false
	}
	return !ok || !slices.Contains(own, owner.Name)
}

func isStruct(t ast.Expr) bool {
	_, ok := t.(*ast.StructType)
	return ok
}

// isLiteral reports whether a value has an unnamed struct type.
func isLiteral(v ast.Expr) bool {
	l, ok := v.(*ast.CompositeLit)
	return ok && isStruct(l.Type)
}

func isMutex(t ast.Expr) bool {
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	return isSelector(t, "sync", "Mutex") || isSelector(t, "sync", "RWMutex")
}
