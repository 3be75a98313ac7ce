package natstest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Disk is a small file system in memory, in its own mount namespace. A program on it (Command) meets a full
// disk as it would a real one. It needs no root where user namespaces are allowed.
type Disk struct {
	Dir   string // its path for the programs on it
	t     DiskUser
	pid   int
	enter []string // the command that enters the namespace
}

// DiskUser is who uses a Disk: a test, or a program.
type DiskUser interface {
	Helper()
	Fatal(why ...any)
	Cleanup(end func())
}

// SmallDisk makes a disk of a size, which ends with the test. The test is skipped if no file system can be mounted.
func SmallDisk(t testing.TB, size int64) *Disk {
	t.Helper()
	return SmallDiskOver(t, t.TempDir(), size)
}

// SmallDiskOver is SmallDisk, mounted over an existing folder.
func SmallDiskOver(t testing.TB, dir string, size int64) *Disk {
	t.Helper()
	d, err := MountDisk(t, dir, size)
	if err != nil {
		t.Skipf("no small disk can be mounted here: %v", err)
	}
	return d
}

// MountDisk mounts a disk over an existing folder until its user's cleanup.
func MountDisk(t DiskUser, dir string, size int64) (*Disk, error) {
	d := &Disk{Dir: dir, t: t}
	mount := fmt.Sprintf(`mount -t tmpfs -o size=%d tmpfs "$0" && echo mounted && read end`, size)
	var why error
	for _, way := range []struct{ unshare, enter []string }{
		{[]string{"-m"}, []string{"-m"}},
		{[]string{"-r", "-m"}, []string{"--preserve-credentials", "-U", "-m"}},
	} {
		why = d.mount(append(way.unshare, "sh", "-c", mount, d.Dir))
		if why == nil {
			d.enter = append([]string{"nsenter", "-t", strconv.Itoa(d.pid)}, way.enter...)
			why = d.Command("true").Run()
		}
		if why == nil {
			return d, nil
		}
	}
	return nil, why
}

// mount starts the process that holds the namespace; it ends with this one in any case.
func (d *Disk) mount(args []string) error {
	holder := exec.Command("unshare", args...)
	var stderr strings.Builder
	holder.Stderr = &stderr
	stdin, err := holder.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := holder.StdoutPipe()
	if err != nil {
		return err
	}
	if err := holder.Start(); err != nil {
		return err
	}
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	end := func() {
		stdin.Close()
		holder.Wait()
	}
	if line != "mounted\n" {
		end()
		return errors.New(strings.TrimSpace(stderr.String()))
	}
	d.t.Cleanup(end)
	d.pid = holder.Process.Pid
	return nil
}

// Command returns a command that sees the disk and runs in its folder. It replaces itself by the program, so signals
// reach it.
func (d *Disk) Command(name string, args ...string) *exec.Cmd {
	all := append(d.enter[1:len(d.enter):len(d.enter)], "sh", "-c", `cd "$0" && exec "$@"`, d.Dir, name)
	return exec.Command(d.enter[0], append(all, args...)...)
}

// Path returns the test's own path of a file below Dir.
func (d *Disk) Path(elem ...string) string {
	return filepath.Join(append([]string{fmt.Sprintf("/proc/%d/root", d.pid), d.Dir}, elem...)...)
}

// Left returns the number of free bytes.
func (d *Disk) Left() int64 {
	d.t.Helper()
	var s syscall.Statfs_t
	if err := syscall.Statfs(d.Path(), &s); err != nil {
		d.t.Fatal(err)
	}
	return int64(s.Bavail) * int64(s.Bsize)
}

// Fill leaves no byte free.
func (d *Disk) Fill() { d.Leave(0) }

// Leave takes or gives back space until that many bytes are free. Other files stay.
func (d *Disk) Leave(free int64) {
	d.t.Helper()
	f, err := os.OpenFile(d.Path("ballast"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	if more := free - d.Left(); more > 0 {
		if i, err := f.Stat(); err != nil || f.Truncate(max(i.Size()-more, 0)) != nil {
			d.t.Fatal("the ballast cannot be made smaller", err)
		}
	}
	const page = 4096
	for left := d.Left(); left > free; left = d.Left() {
		_, err := f.Write(make([]byte, max(min(left-free, 1<<20), page)))
		if errors.Is(err, syscall.ENOSPC) {
			return
		}
		if err != nil {
			d.t.Fatal(err)
		}
	}
}

// Free gives back what Leave and Fill took.
func (d *Disk) Free() {
	d.t.Helper()
	if err := os.Remove(d.Path("ballast")); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.t.Fatal(err)
	}
}
