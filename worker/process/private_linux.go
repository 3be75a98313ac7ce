package process

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Private denies other processes of the same user to trace this process or to read its memory, environment or open
// files. It also disables core dumps. A worker calls it at its start: programs without a sandbox run as its user and
// must not get its keys. Programs that it starts are not private, unless they are Sealed.
func Private() {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}

// Seal copies the program at path. Processes of the copy are private from their first instruction, before they can call
// Private. The kernel protects a process whose file its user may execute but not read. The copy is in memory, in no
// folder, so nobody can change its mode.
func Seal(path string) (*Sealed, error) {
	from, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	fd, err := unix.MemfdCreate("sealed", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("copy %s into memory: %w", path, err)
	}
	memory := os.NewFile(uintptr(fd), path)
	defer memory.Close() // a file that is open for writing cannot be executed
	_, err = io.Copy(memory, from)
	if err := errors.Join(err, memory.Chmod(0o111)); err != nil {
		return nil, fmt.Errorf("copy %s into memory: %w", path, err)
	}
	named, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("copy %s into memory: %w", path, err)
	}
	return &Sealed{os.NewFile(uintptr(named), path)}, nil
}

// sealedPath is the path of a Sealed program in the process that executes it, which has it as its fourth file.
const sealedPath = "/proc/self/fd/3"
