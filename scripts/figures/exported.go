package main

import (
	"fmt"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// exported counts exported package-level names that no other package uses, directly or through the types of other
// names. Tests are ignored. Packages that no code imports are programs or test helpers.
func (c code) exported() {
	used := c.used()
	var lonely []function
	for _, p := range c.all {
		if !c.imported(p) || strings.HasSuffix(p.PkgPath, "test") {
			continue
		}
		for _, name := range p.Types.Scope().Names() {
			if token.IsExported(name) && !used[p.PkgPath+"."+name] {
				lonely = append(lonely, function{name: p.PkgPath + "." + name})
			}
		}
	}
	fmt.Printf("exported names that no other package uses: %d\n", len(lonely))
	c.printTop(lonely, func(f function) string { return f.name })
}

func (c code) imported(p *packages.Package) bool {
	return slices.ContainsFunc(c.all, func(by *packages.Package) bool { return by.Imports[p.PkgPath] != nil })
}

// used returns every package-level name that another package uses, and every type that occurs in the type of one.
func (c code) used() map[string]bool {
	all := reach{}
	for _, p := range c.all {
		for _, o := range p.TypesInfo.Uses {
			if o.Pkg() == nil || o.Pkg().Path() == p.PkgPath {
				continue
			}
			if o.Parent() == o.Pkg().Scope() {
				all[o.Pkg().Path()+"."+o.Name()] = true
			}
			all.visit(o.Type())
		}
	}
	return all
}

// reach is the set of reachable names, by path and name.
type reach map[string]bool

// visit marks our types that occur in a type.
func (r reach) visit(t types.Type) {
	switch t := t.(type) {
	case *types.Alias:
		r.visit(types.Unalias(t))
	case *types.Named:
		r.named(t)
	case *types.Map:
		r.visit(t.Key())
		r.visit(t.Elem())
	case interface{ Elem() types.Type }: // pointers, slices, arrays and channels
		r.visit(t.Elem())
	case *types.Signature:
		r.tuple(t.Params())
		r.tuple(t.Results())
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() {
				r.visit(f.Type())
			}
		}
	case *types.Interface:
		for m := range t.Methods() {
			r.visit(m.Type())
		}
	}
}

func (r reach) tuple(all *types.Tuple) {
	for v := range all.Variables() {
		r.visit(v.Type())
	}
}

func (r reach) named(t *types.Named) {
	for arg := range t.TypeArgs().Types() {
		r.visit(arg)
	}
	o := t.Obj()
	if o.Pkg() == nil || !strings.HasPrefix(o.Pkg().Path(), "ao/") {
		return
	}
	seen := o.Pkg().Path() + "." + o.Name()
	if r["type "+seen] {
		return
	}
	r[seen], r["type "+seen] = true, true
	r.visit(t.Underlying())
	for m := range t.Methods() {
		if m.Exported() {
			r.visit(m.Type())
		}
	}
}
