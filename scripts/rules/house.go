// Package rules contains the house rules as data and checks the tree against them. The check is this package's test,
// which `scripts/check` runs. A rule that is only in a document is not kept for long.
package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
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
		skipped := err == nil && p != "." && (d.Name() == ".git" || d.Name() == "testdata" || ignored(p))
		switch {
		case skipped && d.IsDir():
			return fs.SkipDir
		case err != nil || skipped || d.IsDir():
			return err
		}
		info, err := fs.Stat(root, p)
		if err != nil {
			return err
		}
		text, err := fs.ReadFile(root, p)
		f := File{Path: p, Mode: info.Mode(), Text: string(text)}
		if err == nil && path.Ext(p) == ".go" {
			f.fset = token.NewFileSet()
			f.Go, err = parser.ParseFile(f.fset, p, text, parser.SkipObjectResolution|parser.ParseComments)
		}
		h.Files = append(h.Files, f)
		return err
	})
	return h, err
}

// code yields the Go files that are not for tests alone.
func (h *House) code(yield func(File) bool) {
	for _, f := range h.Files {
		if f.Go != nil && !f.IsTest() && !yield(f) {
			return
		}
	}
}

// lines yields the lines of the file with their numbers, without line ends.
func (f File) lines(yield func(int, string) bool) {
	number := 0
	for line := range strings.Lines(f.Text) {
		number++
		if !yield(number, strings.TrimRight(line, "\r\n")) {
			return
		}
	}
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
		all = append(all, strings.Trim(i.Path.Value, "`\""))
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
	return slices.ContainsFunc(patterns, func(p string) bool { return covers(p, pkg) })
}
