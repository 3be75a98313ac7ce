package process

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// bwrap is the name of bubblewrap's program.
const bwrap = "bwrap"

// wrapped is the program in its sandbox: bubblewrap with what the program is to see, in this order, where a later entry covers an
// earlier one: what may be read; own /proc, /dev and /tmp; what is hidden; and then what the run needs, wherever that lies.
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
	box, dir := c.Sandbox, s.folder()
	args := slices.Clone(namespaces)
	if !box.Online() {
		args = append(args, "--unshare-net")
	}
	reads := box.Read
	if reads == nil {
		reads = []string{"/"}
	}
	for _, p := range reads {
		args = append(args, "--ro-bind", home(p), home(p))
	}
	args = append(args, "--proc", "/proc", "--dev", "/dev", "--bind", temp, "/tmp")
	for _, p := range box.Hide {
		switch info, err := os.Stat(home(p)); {
		case err != nil: // there is nothing to hide
		case info.IsDir():
			args = append(args, "--tmpfs", home(p))
		default:
			args = append(args, "--ro-bind", "/dev/null", home(p))
		}
	}
	for _, p := range box.Write {
		args = append(args, "--bind", home(p), home(p))
	}
	bind := "--bind"
	if box.ProjectDir == "read" {
		bind = "--ro-bind"
	}
	if dir != "/" {
		args = append(args, bind, dir, dir)
	}
	for _, p := range slices.Concat(c.Reads, []string{filepath.Dir(s.Path)}, s.Reads) {
		if p != "/" && p != "" && (bind == "--ro-bind" || !within(p, dir)) { // or the project folder could not be written to
			args = append(args, "--ro-bind-try", p, p)
		}
	}
	args = append(args, "--chdir", dir, "--", s.Path)
	s.Path, s.Args, s.Dir = program, append(args, s.Args...), "/"
	s.Env = with(s.Env, "TMPDIR", "/tmp")
	return s, nil
}

// namespaces: all processes and users of its own, so that it sees no other process and is nobody beyond; and it ends with bubblewrap.
var namespaces = []string{"--die-with-parent", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-cgroup-try"}

// within tells whether a path is a folder, or lies in it.
func within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, "/"))
	return ok && (rest == "" || rest[0] == '/')
}

const missing = `its profile demands a sandbox, and there is no program bwrap on PATH; install bubblewrap (apt-get install bubblewrap, dnf install bubblewrap, apk add bubblewrap), or take "sandbox" out of the profile`
