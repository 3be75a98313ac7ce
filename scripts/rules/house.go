// Package rules holds the rules of this house as data, and checks the tree against them. The test of this package is
// the check; `scripts/check` runs it. A rule that stands in a document only is not kept for long.
package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// A House is the source tree as the rules see it: every file that belongs to it, Go files parsed.
type House struct {
	Files []File
}

// A File is one file of the tree.
type File struct {
	Path string // slash-separated, from the root of the repository
	Mode fs.FileMode
	Text string
	Go   *ast.File // nil unless it is a Go file
	fset *token.FileSet
}

// Read walks the tree below root. It leaves out what .gitignore names, version control, and testdata, which holds other
// people's text.
func Read(root fs.FS) (*House, error) {
	ignored := ignores(root)
	h := &House{}
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case p == ".":
			return nil
		case d.Name() == ".git" || d.Name() == "testdata" || ignored(p):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		}
		f, err := read(root, p)
		if err != nil {
			return err
		}
		h.Files = append(h.Files, f)
		return nil
	})
	return h, err
}

func read(root fs.FS, p string) (File, error) {
	info, err := fs.Stat(root, p)
	if err != nil {
		return File{}, err
	}
	text, err := fs.ReadFile(root, p)
	if err != nil {
		return File{}, err
	}
	f := File{Path: p, Mode: info.Mode(), Text: string(text)}
	if path.Ext(p) == ".go" {
		f.fset = token.NewFileSet()
		f.Go, err = parser.ParseFile(f.fset, p, text, parser.SkipObjectResolution|parser.ParseComments)
	}
	return f, err
}

// ignores reads the plain patterns of the root's .gitignore: those with a slash in front count from the root, the
// others match a file's own name.
func ignores(root fs.FS) func(p string) bool {
	text, err := fs.ReadFile(root, ".gitignore")
	if err != nil {
		return func(string) bool { return false }
	}
	return func(p string) bool {
		for line := range strings.Lines(string(text)) {
			pattern := strings.TrimSuffix(strings.TrimSpace(line), "/")
			rooted, isRooted := strings.CutPrefix(pattern, "/")
			name := path.Base(p)
			if isRooted {
				pattern, name = rooted, p
			}
			if ok, _ := path.Match(pattern, name); ok {
				return true
			}
		}
		return false
	}
}

// Package is the import path of the package that a Go file belongs to: modules are named after their folders.
func (f File) Package() string { return path.Join("ao", path.Dir(f.Path)) }

// IsTest says that the file is compiled for tests only.
func (f File) IsTest() bool { return strings.HasSuffix(f.Path, "_test.go") }

// IsScript says that the file is a program for a shell.
func (f File) IsScript() bool {
	first, _, _ := strings.Cut(f.Text, "\n")
	return strings.HasPrefix(first, "#!") && strings.HasSuffix(strings.TrimSpace(first), "sh")
}

// Imports lists the import paths of a Go file.
func (f File) Imports() []string {
	if f.Go == nil {
		return nil
	}
	var all []string
	for _, i := range f.Go.Imports {
		if p, err := strconv.Unquote(i.Path.Value); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// covers says whether a pattern in the manner of the go command covers an import path: "a/b" is that package alone,
// "a/b/..." is it and everything below.
func covers(pattern, pkg string) bool {
	if tree, ok := strings.CutSuffix(pattern, "/..."); ok {
		return pkg == tree || strings.HasPrefix(pkg, tree+"/")
	}
	return pkg == pattern
}

func anyCovers(patterns []string, pkg string) bool {
	for _, p := range patterns {
		if covers(p, pkg) {
			return true
		}
	}
	return false
}
