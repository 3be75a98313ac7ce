package process

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// bwrap is the name of bubblewrap's program.
const bwrap = "bwrap"

// mount is something that a sandbox shows at a path: by bubblewrap's option, and where it has one of what.
type mount struct{ path, option, of string }

// wrapped is the program in its sandbox: bubblewrap with what the program is to see.
func (c *Confinement) wrapped(s Spec, temp string) (Spec, error) {
	if err := runnable(s.Path, s.Path); err != nil { // bubblewrap would say it less well
		return s, err
	}
	if info, err := os.Stat(s.folder()); err != nil || !info.IsDir() {
		return s, explain(s, errors.Join(err, fs.ErrNotExist))
	}
	program, err := Find(bwrap, os.DevNull)
	if err != nil {
		return s, &StartError{s.Path, missing, err}
	}
	args := slices.Clone(namespaces)
	if !c.Sandbox.Online() {
		args = append(args, "--unshare-net")
	}
	for _, m := range c.mounts(s, temp) {
		if args = append(args, m.option); m.of != "" {
			args = append(args, m.of)
		}
		args = append(args, m.path)
	}
	args = append(args, "--chdir", s.folder(), "--", s.Path)
	s.Path, s.Args, s.Dir = program, append(args, s.Args...), "/"
	s.Env = with(s.Env, "TMPDIR", "/tmp")
	return s, nil
}

// mounts is what the program sees, a folder before what lies in it. What lies in a folder covers what the folder shows there, so
// that a hidden folder in the project stays hidden, and the project in a hidden one is seen. Of one path the later of these counts:
// what may be read; own /proc, /dev and /tmp; what is hidden; what may be written to; what the run needs; and secrets.
func (c *Confinement) mounts(s Spec, temp string) (all []mount) {
	box, dir := c.Sandbox, s.folder()
	reads := box.Read
	if reads == nil {
		reads = []string{"/"}
	}
	for _, p := range reads {
		all = append(all, mount{home(p), "--ro-bind", home(p)})
	}
	all = append(all, mount{"/proc", "--proc", ""}, mount{"/dev", "--dev", ""}, mount{"/tmp", "--bind", temp})
	all = append(all, covers(box.Hide)...)
	for _, p := range box.Write {
		all = append(all, mount{home(p), "--bind", home(p)})
	}
	bind := "--bind"
	if box.ProjectDir == "read" {
		bind = "--ro-bind"
	}
	if dir != "/" {
		all = append(all, mount{dir, bind, dir})
	}
	for _, p := range slices.Concat(c.Reads, []string{filepath.Dir(s.Path)}, s.Reads) {
		if p != "/" && p != "" && (bind == "--ro-bind" || !within(p, dir)) { // or the project folder could not be written to
			all = append(all, mount{filepath.Clean(p), "--ro-bind-try", p})
		}
	}
	all = append(all, covers(c.secrets())...)
	slices.SortStableFunc(all, func(a, b mount) int { return cmp.Compare(len(a.path), len(b.path)) })
	return all
}

// secrets are the files of the worker's own that are hidden from every program.
func (c *Confinement) secrets() (all []string) {
	for _, p := range c.SecretFiles {
		all = append(all, realName(p))
	}
	if h := hidden.Load(); h != nil {
		all = append(all, h.paths...)
	}
	return all
}

// covers has nothing seen of these files and folders.
func covers(paths []string) (all []mount) {
	for _, p := range paths {
		switch info, err := os.Stat(home(p)); {
		case err != nil: // there is nothing to hide
		case info.IsDir():
			all = append(all, mount{home(p), "--tmpfs", ""})
		default:
			all = append(all, mount{home(p), "--ro-bind", "/dev/null"})
		}
	}
	return all
}

// namespaces: all processes and users of its own, so that it sees no other process and is nobody beyond; and it ends with bubblewrap.
var namespaces = []string{"--die-with-parent", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-cgroup-try"}

const missing = `its profile demands a sandbox, and there is no program bwrap on PATH; install bubblewrap (apt-get install bubblewrap, dnf install bubblewrap, apk add bubblewrap), or take "sandbox" out of the profile`

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
