// Command figures prints code metrics: length and complexity of functions, types with many methods, and exported names
// that nobody uses. It also shows cyclic dependencies between the files of a folder.
//
//	go run ./scripts/figures          # the whole workspace
//	go run ./scripts/figures -list    # also list the names
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	list := flag.Bool("list", false, "list the names")
	flag.Parse()
	mode := packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedSyntax | packages.NeedTypes |
		packages.NeedTypesInfo
	all, err := packages.Load(&packages.Config{Mode: mode}, "work")
	if err == nil && packages.PrintErrors(all) > 0 {
		err = fmt.Errorf("it does not compile")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
	c := code{all: all, list: *list}
	c.functions()
	c.methods()
	c.exported()
	c.arrows()
}

// code holds all packages of the workspace without tests.
type code struct {
	all  []*packages.Package
	list bool
}

// function is the size of a function or method.
type function struct {
	name              string
	lines, complexity int
}

func (c code) functions() {
	var all []function
	for _, p := range c.all {
		for _, file := range p.Syntax {
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
					lines := p.Fset.Position(f.End()).Line - p.Fset.Position(f.Pos()).Line + 1
					all = append(all, function{p.PkgPath + "." + nameOf(f), lines, complexity(f)})
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b function) int { return b.lines - a.lines })
	long := slices.DeleteFunc(slices.Clone(all), func(f function) bool { return f.lines <= 60 })
	fmt.Printf("functions: %d, median %d lines, over 60 lines %d, longest %d\n", len(all), all[len(all)/2].lines,
		len(long), all[0].lines)
	c.printTop(long, func(f function) string { return fmt.Sprintf("%4d lines  %s", f.lines, f.name) })
	slices.SortStableFunc(all, func(a, b function) int { return b.complexity - a.complexity })
	branched := slices.DeleteFunc(slices.Clone(all), func(f function) bool { return f.complexity <= 15 })
	fmt.Printf("complexity (McCabe) over 15: %d, highest %d\n", len(branched), all[0].complexity)
	c.printTop(branched, func(f function) string { return fmt.Sprintf("%4d  %s", f.complexity, f.name) })
}

// printTop lists the names with -list.
func (c code) printTop(all []function, line func(function) string) {
	for _, f := range all {
		if c.list {
			fmt.Println("  ", line(f))
		}
	}
}

func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	return strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*") + "." + f.Name.Name
}

// complexity returns the cyclomatic complexity: one, plus one for each if, loop, case, && and ||.
func complexity(f *ast.FuncDecl) int {
	n := 1
	ast.Inspect(f.Body, func(x ast.Node) bool {
		switch x := x.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if x.List != nil {
				n++
			}
		case *ast.CommClause:
			if x.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if x.Op == token.LAND || x.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

// methods counts the methods of each type, including those of embedded types.
func (c code) methods() {
	var all []function
	for _, p := range c.all {
		for _, name := range p.Types.Scope().Names() {
			t, ok := p.Types.Scope().Lookup(name).(*types.TypeName)
			if !ok || t.IsAlias() || types.IsInterface(t.Type()) {
				continue
			}
			if n := types.NewMethodSet(types.NewPointer(t.Type())).Len(); n > 25 {
				all = append(all, function{name: p.PkgPath + "." + name, lines: n})
			}
		}
	}
	slices.SortFunc(all, func(a, b function) int { return b.lines - a.lines })
	most := function{name: "none"}
	if len(all) > 0 {
		most = all[0]
	}
	fmt.Printf("types with more than 25 methods, promoted ones too: %d, most %s (%d)\n", len(all), most.name,
		most.lines)
	c.printTop(all, func(f function) string { return fmt.Sprintf("%4d  %s", f.lines, f.name) })
}

// arrows counts the dependencies between the files of each folder, and how many of them point backwards in the best
// order.
func (c code) arrows() {
	sum, back := map[string]int{}, map[string]int{}
	for _, p := range c.all {
		g := graphOf(p)
		n, up := g.size(), g.back()
		module := strings.SplitN(strings.TrimPrefix(p.PkgPath, "ao/"), "/", 2)[0]
		for _, place := range []string{"whole", module, strings.TrimPrefix(p.PkgPath, "ao/")} {
			sum[place], back[place] = sum[place]+n, back[place]+up
		}
	}
	places := make([]string, 0, len(sum))
	for p := range sum {
		if back[p] > 0 && (c.list || !strings.Contains(p, "/")) || p == "nats/bus" {
			places = append(places, p)
		}
	}
	slices.SortFunc(places, func(a, b string) int { return back[b] - back[a] })
	fmt.Println("arrows between files of a folder that run back up:")
	for _, p := range places {
		fmt.Printf("  %-32s %4d of %4d (%.0f %%)\n", p, back[p], sum[p], 100*float64(back[p])/float64(max(sum[p], 1)))
	}
}

// graph says which file uses which.
type graph map[string]map[string]bool

func graphOf(p *packages.Package) graph {
	file := func(pos token.Pos) string { return filepath.Base(p.Fset.Position(pos).Filename) }
	g := graph{}
	for id, o := range p.TypesInfo.Uses {
		if o.Pkg() != p.Types || o.Pos() == token.NoPos || !declared(p, o) {
			continue
		}
		if from, to := file(id.Pos()), file(o.Pos()); from != to {
			if g[from] == nil {
				g[from] = map[string]bool{}
			}
			g[from][to] = true
		}
	}
	return g
}

// declared reports whether a name is declared at package level or is a method; fields are excluded.
func declared(p *packages.Package, o types.Object) bool {
	if f, ok := o.(*types.Func); ok && f.Signature().Recv() != nil {
		return true
	}
	return o.Parent() == p.Types.Scope()
}

func (g graph) size() (n int) {
	for _, to := range g {
		n += len(to)
	}
	return n
}

// back returns the number of backward dependencies in the best order found: each file moves to its best place until
// none moves.
func (g graph) back() int {
	order := g.files()
	for moved := true; moved; {
		moved = false
		for _, f := range g.files() {
			at := slices.Index(order, f)
			if best := g.place(order, at); best != at {
				order = slices.Insert(slices.Delete(order, at, at+1), best, f)
				moved = true
			}
		}
	}
	n := 0
	for i, from := range order {
		for _, to := range order[:i] {
			if g[from][to] {
				n++
			}
		}
	}
	return n
}

// place returns the best place of a file while the others stay; its current place if none is better.
func (g graph) place(order []string, at int) int {
	best, least, cost := at, 0, 0
	f := order[at]
	arrow := func(from, to string) int {
		if g[from][to] {
			return 1
		}
		return 0
	}
	for i := at - 1; i >= 0; i-- { // past the file above: its dependencies on f turn backwards, f's on it forwards
		if cost += arrow(order[i], f) - arrow(f, order[i]); cost < least {
			best, least = i, cost
		}
	}
	cost = 0
	for i := at + 1; i < len(order); i++ {
		if cost += arrow(f, order[i]) - arrow(order[i], f); cost < least {
			best, least = i, cost
		}
	}
	return best
}

func (g graph) files() []string {
	all := map[string]bool{}
	for from, to := range g {
		all[from] = true
		for f := range to {
			all[f] = true
		}
	}
	list := make([]string, 0, len(all))
	for f := range all {
		list = append(list, f)
	}
	slices.Sort(list)
	return list
}
