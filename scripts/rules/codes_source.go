package rules

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
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

// codeSource has what the source says of codes.
type codeSource struct {
	consts   map[string]string          // constants that are strings, by PACKAGE.NAME
	literals map[string]map[string]bool // strings in the source, by the page with the codes of their package
	found    []usedCode
}

// writtenError matches an error body in a string literal.
var writtenError = regexp.MustCompile(`"error": ?"([A-Za-z_]+)"`)

// codesOf finds the codes of errors: literals and constants that make a fault or are set as a Code. It also finds
// constants that are named as codes, and the codes of written bodies. A code that only a parameter has is found where
// it is a constant.
func codesOf(h *House) *codeSource {
	s := &codeSource{map[string]string{}, map[string]map[string]bool{}, nil}
	var files []File
	for _, f := range h.Files {
		if f.Go != nil && !f.IsTest() && f.Path != codeTable && codePage(f.Package()) != "" {
			files = append(files, f)
			ast.Inspect(f.Go, func(n ast.Node) bool { s.declare(f, n); return true })
		}
	}
	for _, f := range files {
		ast.Inspect(f.Go, func(n ast.Node) bool { s.use(f, n); return true })
	}
	return s
}

// declare notes constants and literals.
func (s *codeSource) declare(f File, n ast.Node) {
	switch n := n.(type) {
	case *ast.GenDecl:
		for _, spec := range n.Specs {
			v, ok := spec.(*ast.ValueSpec)
			for i := 0; ok && n.Tok == token.CONST && i < len(v.Values); i++ {
				if text, ok := literal(v.Values[i]); ok {
					s.consts[f.Go.Name.Name+"."+v.Names[i].Name] = text
					if strings.HasPrefix(strings.ToLower(v.Names[i].Name), "code") {
						s.record(f, v, text, "")
					}
				}
			}
		}
	case *ast.BasicLit:
		if text, ok := literal(n); ok {
			page := codePage(f.Package())
			if s.literals[page] == nil {
				s.literals[page] = map[string]bool{}
			}
			s.literals[page][text] = true
		}
	}
}

// use notes the codes of faults.
func (s *codeSource) use(f File, n ast.Node) {
	switch n := n.(type) {
	case *ast.CallExpr:
		if call, ok := n.Fun.(*ast.SelectorExpr); ok && len(n.Args) > 1 && isCall(n, "fault", call.Sel.Name) &&
			(call.Sel.Name == "New" || call.Sel.Name == "Wrap") {
			kind, _ := n.Args[0].(*ast.SelectorExpr)
			if code := s.value(f, n.Args[1]); code != "" && kind != nil { // else the kind's default
				s.record(f, n, code, kind.Sel.Name)
			}
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if to, ok := left.(*ast.SelectorExpr); ok && to.Sel.Name == "Code" && len(n.Lhs) == len(n.Rhs) {
				if code := s.value(f, n.Rhs[i]); code != "" {
					s.record(f, n, code, "")
				}
			}
		}
	case *ast.BasicLit:
		if text, ok := literal(n); ok {
			for _, m := range writtenError.FindAllStringSubmatch(text, -1) {
				s.record(f, n, m[1], "")
			}
		}
	}
}

// value returns a literal or the value of a constant; empty: it is neither.
func (s *codeSource) value(f File, e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := literal(e)
		return text
	case *ast.Ident:
		return s.consts[f.Go.Name.Name+"."+e.Name]
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			return s.consts[x.Name+"."+e.Sel.Name]
		}
	}
	return ""
}

func (s *codeSource) record(f File, n ast.Node, code, kind string) {
	at := fmt.Sprintf("%s:%d", f.Path, f.fset.Position(n.Pos()).Line)
	s.found = append(s.found, usedCode{code, kind, f.Package(), at})
}

func literal(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(l.Value)
	return text, err == nil
}
