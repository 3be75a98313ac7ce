package process

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

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

// hides tells whether a file is kept from the programs of this process.
func hides(path string) bool {
	h := hidden.Load()
	return h != nil && slices.ContainsFunc(h.paths, func(p string) bool { return within(realName(path), p) })
}

// within tells whether a path is a folder, or lies in it.
func within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, "/"))
	return ok && (rest == "" || rest[0] == '/')
}
