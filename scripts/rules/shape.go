package rules

import (
	"go/ast"
	"maps"
	"path"
	"slices"
	"strings"
)

// Limits of types, outside the packages that wire everything together.
const (
	maxMethods   = 25 // of a type with those it embeds, or of an interface
	maxForeign   = 8  // fields of a struct whose types are of other packages of ours
	maxImporters = 6  // packages that import one package of coordinator/
	maxAsked     = 3  // dependencies of a controller: the log, the projection, and one more
	maxAskedOf   = 9  // methods of one of these
)

// shared is the package whose types embed its connection and are combined by embedding: there only a type's own
// methods count.
const shared = "ao/nats/bus"

// smallTypes limits methods and dependencies of types.
func smallTypes(h *House, say reporter) {
	methods, foreign := sizes(h)
	for at, n := range methods {
		if n > maxMethods {
			say("%s has %d methods, %d are the most: give what belongs together a type of its own", at, n, maxMethods)
		}
	}
	for at, n := range foreign {
		if n > maxForeign {
			say("%s has %d fields of other packages' types, %d are the most: it knows too many; ask for what it needs "+
				"by a small interface", at, n, maxForeign)
		}
	}
}

// sizes counts, by type, the methods and the fields of other packages' types.
func sizes(h *House) (methods, foreign map[string]int) {
	methods, foreign = map[string]int{}, map[string]int{}
	embeds, types := map[string][]string{}, typesOf(h)
	for f := range h.code {
		if !anyCovers([]string{"ao/coordinator/...", "ao/worker/...", shared},
			f.Package()) || anyCovers([]string{"ao/coordinator/serve/...", "ao/worker/serve"}, f.Package()) {
			continue
		}
		ours := oursIn(f)
		for _, d := range f.Go.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if name := receiver(d); name != "" {
					methods[f.Package()+"."+name]++
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					countMembers(s, types, f.Package(), ours, methods, foreign, embeds)
				}
			}
		}
	}
	whole := maps.Clone(methods)
	for at := range embeds {
		if !strings.HasPrefix(at, shared+".") {
			whole[at] = withPromoted(at, methods, embeds, map[string]bool{})
		}
	}
	return whole, foreign
}

// countMembers counts the members of a type.
func countMembers(s ast.Spec, types declared, home string, ours map[string]string, methods, foreign map[string]int,
	embeds map[string][]string) {
	spec, ok := s.(*ast.TypeSpec)
	if !ok {
		return
	}
	at := home + "." + spec.Name.Name
	switch t := spec.Type.(type) {
	case *ast.InterfaceType:
		methods[at] += types.methods(t, place{home, ours})
	case *ast.StructType:
		foreign[at], embeds[at] = types.foreignFields(t, place{home, ours}), embedded(t, home, ours)
	}
}

// withPromoted counts a type's methods including promoted ones.
func withPromoted(at string, methods map[string]int, embeds map[string][]string, seen map[string]bool) int {
	if seen[at] {
		return 0
	}
	seen[at] = true
	n := methods[at]
	for _, in := range embeds[at] {
		n += withPromoted(in, methods, embeds, seen)
	}
	return n
}

// embedded returns our types that a struct embeds.
func embedded(s *ast.StructType, home string, ours map[string]string) (all []string) {
	for _, f := range s.Fields.List {
		if len(f.Names) > 0 {
			continue
		}
		t := f.Type
		if p, ok := t.(*ast.StarExpr); ok {
			t = p.X
		}
		switch t := t.(type) {
		case *ast.Ident:
			all = append(all, home+"."+t.Name)
		case *ast.SelectorExpr:
			if x, ok := t.X.(*ast.Ident); ok && ours[x.Name] != "" {
				all = append(all, ours[x.Name]+"."+t.Sel.Name)
			}
		}
	}
	return all
}

// oursIn returns the names of our packages in a file.
func oursIn(f File) map[string]string {
	ours := map[string]string{}
	for _, i := range f.Go.Imports {
		p := strings.Trim(i.Path.Value, `"`)
		if !covers("ao/...", p) {
			continue
		}
		name := path.Base(p)
		if i.Name != nil {
			name = i.Name.Name
		}
		ours[name] = p
	}
	return ours
}

// receiver returns the receiver type of a method; empty for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	return typeName(d.Recv.List[0].Type)
}

// typeName returns the name of a type of the same package, without pointers and type parameters.
func typeName(t ast.Expr) string {
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// projection is the only part of the coordinator that all may import.
const projection = "ao/coordinator/projection/..."

// fewImporters limits the importers of a package of the coordinator, except the projection.
func fewImporters(h *House, say reporter) {
	by := map[string]map[string]bool{}
	for f := range h.code {
		// simulated coordinators for tests are not part of the product
		if strings.HasSuffix(f.Package(), "test") {
			continue
		}
		for _, used := range f.Imports() {
			if !covers("ao/coordinator/...", used) || used == f.Package() {
				continue
			}
			if by[used] == nil {
				by[used] = map[string]bool{}
			}
			by[used][f.Package()] = true
		}
	}
	for _, used := range slices.Sorted(maps.Keys(by)) {
		if n := len(by[used]); n > maxImporters && !covers(projection, used) {
			say("%s is imported by %d packages, %d are the most: %s", used, n,
				maxImporters, strings.Join(slices.Sorted(maps.Keys(by[used])), ", "))
		}
	}
}
