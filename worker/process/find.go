package process

import (
	"bufio"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// StartError is why a program could not be started.
type StartError struct {
	Command string
	Reason  string
	Err     error // system error; may be nil
}

func (e *StartError) Error() string { return fmt.Sprintf("command %q: %s", e.Command, e.Reason) }

func (e *StartError) Unwrap() error { return e.Err }

// NotFound reports whether the program does not exist; a missing working directory is another problem.
func (e *StartError) NotFound() bool { return errors.Is(e, fs.ErrNotExist) && !e.OfRun() }

// OfRun reports whether the run's own folder, arguments or environment are the reason: another run may be started.
func (e *StartError) OfRun() bool {
	return strings.Contains(e.Reason, "the working directory ") || errors.Is(e, syscall.E2BIG) ||
		errors.Is(e, syscall.EINVAL)
}

// Find returns the path of a command. A path is absolute or relative to dir. A bare name is a file in dir, else a
// program on PATH. The error is a *StartError; errors.Is(err, fs.ErrNotExist) if there is no such file.
func Find(command, dir string) (string, error) {
	switch {
	case command == "":
		return "", &StartError{command, "is empty; name a program", fs.ErrInvalid}
	case strings.ContainsRune(command, 0):
		return "", &StartError{command, "contains a NUL byte", fs.ErrInvalid}
	}
	path := command
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	err := checkRunnable(command, path)
	if err != nil && !strings.Contains(command, "/") {
		if found, err := exec.LookPath(command); err == nil {
			return filepath.Abs(found)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return "", &StartError{command, fmt.Sprintf("no such file in %s and no such program on PATH",
				cmp.Or(dir, "the working directory")), fs.ErrNotExist}
		}
	}
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// Runnable checks that this process may run the program at an absolute path. The error is a *StartError.
func Runnable(path string) error { return checkRunnable(path, path) }

// checkRunnable checks that this process may run the file at path.
func checkRunnable(command, path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &StartError{command, fmt.Sprintf("%s does not exist", path), err}
	case errors.Is(err, fs.ErrPermission):
		return &StartError{command, fmt.Sprintf("no permission to read %s", path), err}
	case err != nil:
		return &StartError{command, fmt.Sprintf("%s: %v", path, err), err}
	case info.IsDir():
		return &StartError{command, fmt.Sprintf("%s is a directory, not a program", path), syscall.EISDIR}
	case !info.Mode().IsRegular():
		return &StartError{command, fmt.Sprintf("%s is not a regular file", path), fs.ErrPermission}
	}
	if _, err := exec.LookPath(absolute(path)); err != nil {
		return &StartError{command, fmt.Sprintf("%s is not executable; chmod +x it", path), fs.ErrPermission}
	}
	return nil
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

const carriageReturn = "the first line ends in a carriage return; save the file with line ends of Unix"

// path returns where the program is.
func (s Spec) path() string {
	if filepath.IsAbs(s.Path) {
		return s.Path
	}
	return filepath.Join(s.Dir, s.Path)
}

// explainStart turns the system's error of a start into a StartError that names the cause.
func explainStart(s Spec, err error) error {
	if errors.Is(err, errSetLimits) || len(s.limits) > 0 && errors.Is(err, syscall.EPERM) {
		return &StartError{s.Path, err.Error() + ptraceHint, err}
	}
	if why := dirProblem(s.Dir, err); why != "" {
		return &StartError{s.Path, "the working directory " + s.Dir + " " + why, err}
	}
	path := s.path()
	if bad := checkRunnable(s.Path, path); bad != nil {
		return bad
	}
	loader := interpreter(path)
	missing := errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR)
	switch {
	case s.Dir != "" && (missing || errors.Is(err, syscall.EACCES)) && (loader == "" || Runnable(loader) == nil):
		// a run may change its folder at any time: that does not count against the program
		return &StartError{s.Path, "the working directory " + s.Dir + " was not usable as it started", err}
	case missing && strings.HasSuffix(loader, "\r"):
		return &StartError{s.Path, "bad interpreter: " + carriageReturn, err}
	case missing:
		return &StartError{s.Path, "its interpreter " + loader + " does not exist", err}
	case errors.Is(err, syscall.EACCES):
		return &StartError{s.Path, "permission denied by a folder, its interpreter or a mount option (noexec)", err}
	case errors.Is(err, syscall.ENOEXEC):
		return &StartError{s.Path, "not an executable of this system; a script begins with a line like #!/bin/sh", err}
	case errors.Is(err, syscall.E2BIG):
		return &StartError{s.Path, "its arguments and environment are too long for the system", err}
	case errors.Is(err, syscall.EINVAL):
		return &StartError{s.Path, "an argument or a variable of its environment contains a NUL byte", err}
	case errors.Is(err, syscall.EAGAIN):
		return &StartError{s.Path, "the system's limit of processes is reached", err}
	}
	return &StartError{s.Path, err.Error(), err}
}

// dirProblem returns why no program can start in dir, if err may be due to that; empty: dir is fine.
func dirProblem(dir string, err error) string {
	if dir == "" {
		return ""
	}
	switch info, dirErr := os.Stat(dir); {
	case errors.Is(dirErr, fs.ErrNotExist):
		return "does not exist"
	case dirErr != nil:
		return fmt.Sprintf("cannot be used: %v", dirErr)
	case !info.IsDir():
		return "is not a directory"
	case errors.Is(err, syscall.EACCES) && !mayEnter(dir):
		return "cannot be entered: permission denied"
	}
	return ""
}

func mayEnter(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "."+string(filepath.Separator)+"."))
	return err == nil
}

// open opens a program's file; nil: it is none that can be read.
func open(path string) *os.File {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // by now it may be a pipe, which must not hold it up
	if err != nil {
		return nil
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil
	}
	return f
}

// shebang returns what follows #! in the first line of a script, with its carriage return. Empty: it is no script.
func shebang(path string) string {
	f := open(path)
	if f == nil {
		return ""
	}
	defer f.Close()
	line, _ := bufio.NewReaderSize(f, 256).ReadSlice('\n')
	rest, ok := strings.CutPrefix(string(line), "#!")
	if !ok {
		return ""
	}
	return strings.Trim(rest, " \t\n")
}

// interpreter returns the program that the system starts in place of a script or a binary, as the file names it; empty:
// it names none.
func interpreter(path string) string {
	if name, _, _ := strings.Cut(strings.ReplaceAll(shebang(path), "\t", " "), " "); name != "" {
		return name // a carriage return belongs to it
	}
	f := open(path)
	if f == nil {
		return ""
	}
	defer f.Close()
	binary, err := elf.NewFile(f)
	if err != nil {
		return ""
	}
	for _, p := range binary.Progs {
		if p.Type == elf.PT_INTERP {
			name, _ := io.ReadAll(io.LimitReader(p.Open(), 4096))
			return strings.TrimRight(string(name), "\x00")
		}
	}
	return ""
}
