// Package rules contains the house rules as data and checks the tree against them. The check is this package's test,
// which `scripts/check` runs. A rule that is only in a document is not kept for long.
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

// House is the source tree for the rules: all its files, with Go files parsed.
type House struct {
	Files []File
}

// File is one file of the tree.
type File struct {
	Path string // slash-separated, from the root of the repository
	Mode fs.FileMode
	Text string
	Go   *ast.File // nil if it is not a Go file
	fset *token.FileSet
}

// Read reads the tree below root. It skips files in .gitignore, version control, and testdata, which contains foreign
// text.
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

// ignores reads the patterns of the root's .gitignore: those with a leading slash are relative to the root, the
// others match file names.
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

// Package returns the import path of a Go file's package; modules are named after their folders.
func (f File) Package() string { return path.Join("ao", path.Dir(f.Path)) }

// IsTest reports whether the file is compiled for tests only.
func (f File) IsTest() bool { return strings.HasSuffix(f.Path, "_test.go") }

// IsScript reports whether the file is a shell script.
func (f File) IsScript() bool {
	first, _, _ := strings.Cut(f.Text, "\n")
	return strings.HasPrefix(first, "#!") && strings.HasSuffix(strings.TrimSpace(first), "sh")
}

// Imports returns the import paths of a Go file.
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

// covers reports whether a pattern of the go command matches an import path: "a/b" is that package, "a/b/..." also
// everything below.
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
