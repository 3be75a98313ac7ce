package process

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
)

// hiding is what no program of this process may read, and how that is kept.
type hiding struct {
	paths []string // real names
	pool  *pool    // starts programs that cannot
}

// hidden is nil where nothing is hidden.
var hidden atomic.Pointer[hiding]

// Hide keeps files and folders from every program that this process starts from now on: whoever tries to read one is refused. Programs in
// a sandbox have them empty; all others are refused by Landlock, which also keeps them out of this process and of all that they did not
// start themselves. It is called once, before any program is started.
//
// Landlock knows what may be read and not what must not. So of each folder on the way to a hidden one, programs read what lies there now
// and nothing that comes later. Folders that programs make files in, and used is a list of more, may not be on that way.
//
// The error says what is wrong with the paths, or why this machine cannot keep them.
func Hide(paths []string, used ...string) error {
	if len(paths) == 0 {
		return nil
	}
	h := &hiding{}
	for _, p := range paths {
		if !filepath.IsAbs(p) {
			return fmt.Errorf("%q: write an absolute path", p)
		}
		h.paths = append(h.paths, realName(p))
	}
	for _, dir := range append([]string{os.TempDir()}, used...) {
		for i, p := range h.paths {
			if real := realName(dir); within(p, real) || within(real, p) {
				return fmt.Errorf("%s and the folder %s, which programs work in, lie in one another: keep what is hidden in a folder apart, for example /keys", paths[i], dir)
			}
		}
	}
	pool, err := sealed(h.paths)
	if err != nil {
		return err
	}
	h.pool = pool
	hidden.Store(h)
	return nil
}

// Hides tells whether a file is kept from the programs of this process.
func Hides(path string) bool {
	h := hidden.Load()
	return h != nil && slices.ContainsFunc(h.paths, func(p string) bool { return within(realName(path), p) })
}

// realName is a path without links, as far as there is something.
func realName(path string) string {
	path = filepath.Clean(path)
	if !filepath.IsAbs(path) {
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
	}
	rest := ""
	for dir := path; ; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == "/" {
			return path
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

// around gives all that lies beside the hidden paths, from a folder on: the fewest names below which nothing is hidden. Links are left
// out: what they name has its own.
func around(dir string, hidden []string, give func(path string) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case slices.Contains(hidden, path), e.Type()&os.ModeSymlink != 0:
		case e.IsDir() && slices.ContainsFunc(hidden, func(p string) bool { return strings.HasPrefix(p, path+"/") }):
			err = around(path, hidden, give)
		default:
			err = give(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
