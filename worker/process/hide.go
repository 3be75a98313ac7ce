package process

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Hide denies every program that this process starts from now on to read these files and folders. In a sandbox they
// are empty. Landlock denies them to all others, and also denies access to this process and its other descendants.
// Call it once, before any program starts.
//
// Landlock only knows what may be read. So in each folder above a hidden one, programs can read what exists now and
// nothing created later. Folders that programs create files in must not be above or below a hidden path; used lists
// more of those.
//
// The error says what is wrong with the paths, or why this machine cannot hide them.
func Hide(paths []string, used ...string) error {
	if len(paths) == 0 {
		return nil
	}
	h := &hiddenFiles{}
	for _, p := range paths {
		if !filepath.IsAbs(p) {
			return fmt.Errorf("%q: write an absolute path", p)
		}
		h.paths = append(h.paths, realName(p))
	}
	for _, dir := range append([]string{os.TempDir()}, used...) {
		for i, p := range h.paths {
			if real := realName(dir); within(p, real) || within(real, p) {
				return fmt.Errorf("%s overlaps %s, a folder that programs work in: keep hidden files in a separate "+
					"folder, for example /keys", paths[i], dir)
			}
		}
	}
	pool, err := newLandlockPool(h.paths)
	if err != nil {
		return err
	}
	h.pool = pool
	hidden.Store(h)
	return nil
}

// HiddenPaths returns what Hide hides, without links; nil: nothing.
func HiddenPaths() []string {
	if h := hidden.Load(); h != nil {
		return h.paths
	}
	return nil
}

// isHidden reports whether a file is hidden from the programs of this process.
func isHidden(path string) bool {
	return slices.ContainsFunc(HiddenPaths(), func(p string) bool { return within(realName(path), p) })
}

// within reports whether path is dir or lies in it.
func within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, "/"))
	return ok && (rest == "" || rest[0] == '/')
}
