//go:build linux

// Package secretsearch is a hostile executor program for tests: it searches everything it can read for a secret, in
// every way it knows.
package secretsearch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
)

// Findings are where the secret was found, and how much was read.
type Findings struct {
	Found     []string `json:"found"`
	Files     int      `json:"files"`
	Processes int      `json:"processes"` // processes of others
	Entered   []string `json:"entered"`   // processes that could be read, traced, or robbed of a file
}

// Search searches for the secret below the roots, in these processes (nil: in all others), and through aliases of the
// places where the secret is.
func Search(secret *regexp.Regexp, roots, places, processes []string) Findings {
	p := &searcher{secret: secret}
	for _, dir := range append(roots, places...) {
		p.walk(dir)
	}
	if processes == nil {
		processes, _ = filepath.Glob("/proc/[0-9]*")
	}
	p.processes(processes, places)
	for _, place := range places {
		p.aliases(place)
	}
	return p.findings
}

type searcher struct {
	secret   *regexp.Regexp
	findings Findings
}

// most is how much of a file is read, in bytes.
const most = 16 << 20

func (p *searcher) scan(name string, r io.Reader) {
	text, _ := io.ReadAll(io.LimitReader(r, most))
	if len(text) > 0 {
		p.findings.Files++
	}
	if p.secret.Match(text) {
		p.findings.Found = append(p.findings.Found, name)
	}
}

// file scans a file, unless that would block.
func (p *searcher) file(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return err
	}
	p.scan(path, f)
	return nil
}

// walk scans a file or every file below a folder.
func (p *searcher) walk(dir string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
		case d.IsDir() && (path == "/proc" || path == "/sys"): // processes are scanned separately
			return fs.SkipDir
		case d.Type().IsRegular(), d.Type()&fs.ModeSymlink != 0:
			_ = p.file(path)
		}
		return nil
	})
}

// processes scans the other processes: environment, memory, open files, and their view of the file system.
func (p *searcher) processes(all, places []string) {
	for _, proc := range all {
		if proc == fmt.Sprintf("/proc/%d", os.Getpid()) {
			continue
		}
		p.findings.Processes++
		before := p.findings.Files
		for _, name := range []string{"environ", "cmdline", "auxv"} {
			_ = p.file(proc + "/" + name)
		}
		p.memory(proc)
		for _, of := range []string{"/fd/*", "/map_files/*", "/task/*/environ", "/task/*/fd/*", "/cwd/*"} {
			names, _ := filepath.Glob(proc + of)
			for _, name := range names {
				_ = p.file(name)
			}
		}
		for _, place := range places {
			p.walk(proc + "/root" + place)
		}
		if p.attach(proc) || p.findings.Files > before+1 { // everybody can read a command line
			p.findings.Entered = append(p.findings.Entered, proc)
		}
	}
}

func (p *searcher) memory(proc string) {
	mem, err := os.Open(proc + "/mem")
	if err != nil {
		return
	}
	defer mem.Close()
	maps, err := os.ReadFile(proc + "/maps")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		if n, _ := fmt.Sscanf(line, "%x-%x r", &from, &to); n == 2 {
			p.scan(proc+"/mem", io.NewSectionReader(mem, from, to-from))
		}
	}
}

// attach traces a process, or takes its open files.
func (p *searcher) attach(proc string) bool {
	const pidfdOpen, pidfdGet = 434, 438
	var pid int
	if _, err := fmt.Sscanf(proc, "/proc/%d", &pid); err != nil {
		return false
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if syscall.PtraceAttach(pid) == nil {
		_, _ = syscall.Wait4(pid, nil, syscall.WALL, nil)
		_ = syscall.PtraceDetach(pid)
		return true
	}
	its, _, errno := syscall.Syscall(pidfdOpen, uintptr(pid), 0, 0)
	if errno != 0 {
		return false
	}
	defer syscall.Close(int(its))
	taken := false
	for n := range uintptr(256) {
		if fd, _, errno := syscall.Syscall(pidfdGet, its, n, 0); errno == 0 {
			syscall.Close(int(fd))
			taken = true
		}
	}
	return taken
}

// aliases tries to read what is at a place under another name.
func (p *searcher) aliases(place string) {
	tmp, err := os.MkdirTemp("", "secretsearch")
	if err != nil {
		return
	}
	defer os.RemoveAll(tmp)
	names := []string{place}
	_ = filepath.WalkDir(place, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			names = append(names, path)
		}
		return nil
	})
	for i, name := range names {
		at := filepath.Join(tmp, fmt.Sprint(i))
		for _, try := range []func() error{
			func() error { return os.Symlink(name, at+"s") },
			func() error { return os.Link(name, at+"l") },
			func() error { return syscall.Mount(name, tmp, "", syscall.MS_BIND, "") },
			func() error { return os.Rename(name, at+"r") },
		} {
			if try() != nil {
				continue
			}
			p.walk(tmp)
			_ = syscall.Unmount(tmp, 2) // MNT_DETACH
			_ = os.Rename(at+"r", name)
		}
		const justName = 0x200000 // O_PATH: needs no permission to open; read through /proc later
		if fd, err := syscall.Open(name, justName, 0); err == nil {
			p.walk(fmt.Sprintf("/proc/self/fd/%d/", fd))
			_ = p.file(fmt.Sprintf("/proc/self/fd/%d", fd))
			syscall.Close(fd)
		}
	}
}

// Main is the program. Its parameters are lines on stdin: "secret", "root", "place" or "process", and a value.
func Main(in io.Reader) (Findings, error) {
	var secret *regexp.Regexp
	var roots, places, processes []string
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		what, value, _ := strings.Cut(lines.Text(), " ")
		switch what {
		case "secret":
			var err error
			secret, err = regexp.Compile(value)
			if err != nil {
				return Findings{}, err
			}
		case "root":
			roots = append(roots, value)
		case "place":
			places = append(places, value)
		case "process":
			processes = append(processes, "/proc/"+value)
		}
	}
	if secret == nil {
		return Findings{}, errors.New("secret is required")
	}
	return Search(secret, roots, places, processes), nil
}
