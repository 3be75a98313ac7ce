package main

import (
	"fmt"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// exported counts exported names at package level that no other package uses: it neither names them nor gets values of
// them through what it names. Tests are not looked at. Packages that no code imports are programs or for tests, as are
// those that are called so.
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

// used is every name at package level that another package names, and every type that stands in the type of one.
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

// reach is what can be named or held, by path and name.
type reach map[string]bool

// visit marks the types of ours that somebody holds who has a value of this type.
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
