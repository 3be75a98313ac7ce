package rules

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// usedCode is a code of an error that callers see.
type usedCode struct {
	code string
	kind string // kind of the fault; empty: unknown
	pkg  string
	at   string // file and line
}

// codeParameter is a parameter of a function or closure that is a code.
type codeParameter struct {
	index int
	kind  string // kind of the created fault; empty: given by the first argument
}

// codeSource is what the search knows about the source. All names are PACKAGE.NAME, also those of methods.
type codeSource struct {
	consts     map[string]string        // constants that are strings
	lists      map[string][]string      // the strings in lists and maps of packages
	funcs      map[string]*ast.FuncDecl // functions, not methods
	takers     map[string]codeParameter
	methods    map[string]bool // names of methods with a code parameter
	found      []usedCode
	unresolved []string // lines whose code could not be determined
}

// writtenError matches an error body in a string literal.
var writtenError = regexp.MustCompile(`"error": ?"([A-Za-z_]+)"`)

// codesOf finds the codes of errors, and the places where a code cannot be determined. A code is a literal, a
// constant, or a variable or parameter with one.
func codesOf(h *House) (told []usedCode, unread []string) {
	s := &codeSource{map[string]string{}, map[string][]string{}, map[string]*ast.FuncDecl{}, map[string]codeParameter{
		"ao/shared/fault.New": {index: 1}, "ao/shared/fault.Wrap": {index: 1}, "ao/shared/httpserver.problem": {
			kind: "Invalid"},
	}, map[string]bool{}, nil, nil}
	var files []File
	for _, f := range h.Files {
		if f.Go != nil && !f.IsTest() {
			s.declare(f)
			if codePage(f.Package()) != "" {
				files = append(files, f)
			}
		}
	}
	for known := -1; known < len(s.takers); { // until no new function passes a parameter on
		known, s.found, s.unresolved = len(s.takers), nil, nil
		for _, f := range files {
			for _, d := range f.Go.Decls {
				s.search(f, d)
			}
		}
	}
	for _, code := range s.lists["ao/shared/fault.codes"] { // default codes of kinds
		s.found = append(s.found, usedCode{code, "Invalid", "ao/shared/fault", "shared/fault/fault.go"})
	}
	return s.found, s.unresolved
}

// declare records the declarations of a file.
func (s *codeSource) declare(f File) {
	for _, d := range f.Go.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				s.funcs[f.Package()+"."+d.Name.Name] = d
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				v, ok := spec.(*ast.ValueSpec)
				if !ok {
					continue
				}
				for i, value := range v.Values {
					name := f.Package() + "." + v.Names[i].Name
					if text, ok := literal(value); ok && d.Tok == token.CONST {
						s.consts[name] = text
					}
					if list, ok := value.(*ast.CompositeLit); ok {
						s.lists[name] = texts(list)
					}
				}
			}
		}
	}
}

// texts returns the string values of a list or a map.
func texts(list *ast.CompositeLit) (all []string) {
	for _, e := range list.Elts {
		if pair, ok := e.(*ast.KeyValueExpr); ok {
			e = pair.Value
		}
		if text, ok := literal(e); ok {
			all = append(all, text)
		}
	}
	return all
}

func literal(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(l.Value)
	return text, err == nil
}

// codeScanner searches one declaration.
type codeScanner struct {
	*codeSource
	file    File
	imports map[string]string          // by name in the file
	takes   map[string][]*ast.FuncType // the function and its closures, by name
	ranges  map[*ast.FuncType]ast.Node // their source ranges
	given   map[string][]ast.Expr      // assignments to local variables
	looking map[string]bool            // variables in progress, to stop recursion
}

// search collects the codes in a declaration.
func (s *codeSource) search(f File, d ast.Decl) {
	p := &codeScanner{s, f, map[string]string{}, map[string][]*ast.FuncType{}, map[*ast.FuncType]ast.Node{},
		map[string][]ast.Expr{}, map[string]bool{}}
	for _, i := range f.Go.Imports {
		full, _ := strconv.Unquote(i.Path.Value)
		name := path.Base(full)
		if i.Name != nil {
			name = i.Name.Name
		}
		p.imports[name] = full
	}
	if fn, ok := d.(*ast.FuncDecl); ok {
		p.function(f.Package()+"."+fn.Name.Name, fn.Type, fn)
	}
	ast.Inspect(d, func(n ast.Node) bool { p.assigned(n); return true })
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			for _, name := range p.called(n.Fun) {
				if t, ok := s.takers[name]; ok && t.index < len(n.Args) {
					p.recordParameter(n.Args[t.index], or(t.kind, kindOf(n.Args[0])), true)
					break
				}
			}
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if to, ok := left.(*ast.SelectorExpr); ok && to.Sel.Name == "Code" && len(n.Lhs) == len(n.Rhs) {
					p.recordParameter(n.Rhs[i], p.made(to.X), false) // it may be the Code of another type
				}
			}
		case *ast.BasicLit:
			if text, ok := literal(n); ok {
				for _, m := range writtenError.FindAllStringSubmatch(text, -1) {
					p.record(m[1], "", n)
				}
			}
		}
		return true
	})
}

func (p *codeScanner) function(name string, t *ast.FuncType, where ast.Node) {
	p.takes[name] = append(p.takes[name], t)
	p.ranges[t] = where
}

// assigned records assignments to local variables, and closures by name.
func (p *codeScanner) assigned(n ast.Node) {
	note := func(name string, e ast.Expr) {
		p.given[name] = append(p.given[name], e)
		if c, ok := e.(*ast.FuncLit); ok {
			p.function(p.closure(name), c.Type, c)
		}
	}
	switch n := n.(type) {
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if to, ok := left.(*ast.Ident); ok && len(n.Lhs) == len(n.Rhs) {
				note(to.Name, n.Rhs[i])
			}
		}
	case *ast.ValueSpec:
		for i, value := range n.Values {
			note(n.Names[i].Name, value)
		}
	}
}

// closure returns the name of a closure, which may be passed on within its file under the same name.
func (p *codeScanner) closure(name string) string { return p.file.Path + "." + name }

// called returns the possible names of a called function.
func (p *codeScanner) called(fun ast.Expr) []string {
	switch fun := fun.(type) {
	case *ast.Ident:
		return []string{p.closure(fun.Name), p.file.Package() + "." + fun.Name}
	case *ast.SelectorExpr:
		if x, ok := fun.X.(*ast.Ident); ok && p.imports[x.Name] != "" {
			return []string{p.imports[x.Name] + "." + fun.Sel.Name}
		}
		if !p.methods[fun.Sel.Name] {
			return nil
		}
		names := []string{p.file.Package() + "." + fun.Sel.Name} // a method of a known type
		for _, pkg := range slices.Sorted(maps.Values(p.imports)) {
			names = append(names, pkg+"."+fun.Sel.Name)
		}
		return names
	}
	return nil
}

func kindOf(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		return s.Sel.Name
	}
	return ""
}

// made returns the kind of a local variable's error; empty if unknown.
func (p *codeScanner) made(e ast.Expr) string {
	name, ok := e.(*ast.Ident)
	if !ok || len(p.given[name.Name]) == 0 {
		return ""
	}
	for e = p.given[name.Name][0]; ; { // fault.New(…).With(…).After(…)
		call, ok := e.(*ast.CallExpr)
		if !ok {
			return ""
		}
		s, ok := call.Fun.(*ast.SelectorExpr)
		switch {
		case !ok:
			return ""
		case isSelector(s, "fault", "New"), isSelector(s, "fault", "Newf"), isSelector(s, "fault", "Wrap"):
			return kindOf(call.Args[0])
		}
		e = s.X
	}
}

func (p *codeScanner) record(code, kind string, n ast.Node) {
	at := fmt.Sprintf("%s:%d", p.file.Path, p.file.fset.Position(n.Pos()).Line)
	p.found = append(p.found, usedCode{code, kind, p.file.Package(), at})
}

// recordParameter records the possible codes of an expression.
func (p *codeScanner) recordParameter(e ast.Expr, kind string, must bool) {
	codes, seen := p.values(e, kind)
	if must && !seen {
		p.unresolved = append(p.unresolved,
			fmt.Sprintf("%s: the code of this error cannot be seen; give a literal or a constant",
				p.file.fset.Position(e.Pos())))
	}
	for _, code := range codes {
		if code != "" { // else the kind's default
			p.record(code, kind, e)
		}
	}
}

// values returns the possible strings of an expression; seen is false if there may be others.
func (p *codeScanner) values(e ast.Expr, kind string) (codes []string, seen bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, ok := literal(e)
		return []string{text}, ok
	case *ast.Ident:
		return p.variable(e, kind)
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok && p.imports[x.Name] != "" {
			text, ok := p.consts[p.imports[x.Name]+"."+e.Sel.Name]
			return []string{text}, ok
		}
		return nil, e.Sel.Name == "Code" // the code of another error, which was found where it is created
	case *ast.IndexExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			list, ok := p.lists[p.file.Package()+"."+x.Name]
			return list, ok
		}
	case *ast.CallExpr:
		if isCall(e, "cmp", "Or") {
			return p.anyOf(e.Args, kind)
		}
		if x, ok := e.Fun.(*ast.Ident); ok {
			return p.returned(p.funcs[p.file.Package()+"."+x.Name], kind)
		}
	}
	return nil, false
}

func (p *codeScanner) anyOf(all []ast.Expr, kind string) (codes []string, seen bool) {
	seen = len(all) > 0
	for _, e := range all {
		some, ok := p.values(e, kind)
		codes, seen = append(codes, some...), seen && ok
	}
	return codes, seen
}

// returned returns the possible results of a function with one result.
func (p *codeScanner) returned(fn *ast.FuncDecl, kind string) ([]string, bool) {
	if fn == nil {
		return nil, false
	}
	var all []ast.Expr
	ast.Inspect(fn, func(n ast.Node) bool {
		if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) == 1 {
			all = append(all, r.Results[0])
		}
		return true
	})
	return p.anyOf(all, kind)
}

// variable returns the possible values of a name. A parameter makes its function one with a code parameter, whose
// calls are searched too.
func (p *codeScanner) variable(name *ast.Ident, kind string) ([]string, bool) {
	if text, ok := p.consts[p.file.Package()+"."+name.Name]; ok {
		return []string{text}, true
	}
	if p.looking[name.Name] {
		return nil, true
	}
	p.looking[name.Name] = true
	defer delete(p.looking, name.Name)
	codes, seen := p.anyOf(p.given[name.Name], kind)
	for function, types := range p.takes {
		for _, t := range types {
			if i := parameter(t, name.Name); i >= 0 && p.ranges[t].Pos() <= name.Pos() &&
				name.Pos() < p.ranges[t].End() {
				if _, ok := p.takers[function]; !ok {
					p.takers[function], p.methods[function[strings.LastIndexByte(function, '.')+1:]] = codeParameter{
						i, kind}, true
				}
				seen = seen || len(p.given[name.Name]) == 0
			}
		}
	}
	return codes, seen
}

// parameter returns the index of a function's parameter; -1 if it has none of that name.
func parameter(t *ast.FuncType, name string) int {
	i := 0
	for _, field := range t.Params.List {
		for _, n := range field.Names {
			if n.Name == name {
				return i
			}
			i++
		}
	}
	return -1
}
