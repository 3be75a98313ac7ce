package process

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// bwrap is the program of bubblewrap.
const bwrap = "bwrap"

// mount is a path in a sandbox: option is bubblewrap's, source its argument if it takes one.
type mount struct{ path, option, source string }

// sandboxed returns the spec to start the program in its sandbox, by bubblewrap.
func (c *Confinement) sandboxed(s Spec, temp string) (Spec, error) {
	if err := checkRunnable(s.Path, s.Path); err != nil { // a better error than bubblewrap's
		return s, err
	}
	if info, err := os.Stat(s.absDir()); err != nil || !info.IsDir() {
		return s, explainStart(s, errors.Join(err, fs.ErrNotExist))
	}
	program, err := Find(bwrap, os.DevNull)
	if err != nil {
		return s, &StartError{s.Path, noBubblewrap, err}
	}
	args := slices.Clone(namespaces)
	if !c.Sandbox.HasNetwork() {
		args = append(args, "--unshare-net")
	}
	for _, m := range c.mounts(s, temp) {
		args = append(args, m.option)
		if m.source != "" {
			args = append(args, m.source)
		}
		args = append(args, m.path)
	}
	args = append(args, "--chdir", s.absDir(), "--", s.Path)
	s.Path, s.Args, s.Dir = program, append(args, s.Args...), "/"
	s.Env = setEnv(s.Env, "TMPDIR", "/tmp")
	return s, nil
}

// mounts returns what the program sees, a folder before its contents. A deeper path covers a shallower one, so a
// hidden folder in the project stays hidden, and a project in a hidden folder is visible. For the same path the later
// of these wins: readable paths; own /proc, /dev and /tmp; hidden paths; writable paths; what the run needs; secrets.
func (c *Confinement) mounts(s Spec, temp string) (all []mount) {
	box, dir := c.Sandbox, s.absDir()
	reads := box.Read
	if reads == nil {
		reads = []string{"/"}
	}
	for _, p := range reads {
		all = append(all, mount{expandHome(p), "--ro-bind", expandHome(p)})
	}
	all = append(all, mount{"/proc", "--proc", ""}, mount{"/dev", "--dev", ""}, mount{"/tmp", "--bind", temp})
	all = append(all, hideMounts(box.Hide)...)
	for _, p := range box.Write {
		all = append(all, mount{expandHome(p), "--bind", expandHome(p)})
	}
	bind := "--bind"
	if box.ProjectDir == "read" {
		bind = "--ro-bind"
	}
	if dir != "/" {
		all = append(all, mount{dir, bind, dir})
	}
	for _, p := range slices.Concat(c.Reads, []string{filepath.Dir(s.Path)}, s.Reads) {
		// otherwise the project folder would not be writable
		if p != "/" && p != "" && (bind == "--ro-bind" || !within(p, dir)) {
			all = append(all, mount{filepath.Clean(p), "--ro-bind-try", p})
		}
	}
	all = append(all, hideMounts(c.secrets())...)
	slices.SortStableFunc(all, func(a, b mount) int { return cmp.Compare(len(a.path), len(b.path)) })
	return all
}

// secrets returns the worker's own files that are hidden from every program.
func (c *Confinement) secrets() (all []string) {
	for _, p := range c.SecretFiles {
		all = append(all, realName(p))
	}
	return append(all, HiddenPaths()...)
}

// hideMounts returns mounts that hide these files and folders.
func hideMounts(paths []string) (all []mount) {
	for _, p := range paths {
		switch info, err := os.Stat(expandHome(p)); {
		case err != nil: // nothing to hide
		case info.IsDir():
			all = append(all, mount{expandHome(p), "--tmpfs", ""})
		default:
			all = append(all, mount{expandHome(p), "--ro-bind", "/dev/null"})
		}
	}
	return all
}

// namespaces gives a sandbox its own processes and users: it sees no other process, has no rights outside, and ends
// with bubblewrap.
var namespaces = []string{"--die-with-parent", "--unshare-user", "--unshare-pid", "--unshare-ipc",
	"--unshare-cgroup-try"}

const noBubblewrap = `its profile has a sandbox, but bwrap is not on PATH; install bubblewrap (apt-get install ` +
	`bubblewrap, dnf install bubblewrap, apk add bubblewrap), or remove "sandbox" from the profile`

// realName resolves the links in a path, as far as it exists.
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
