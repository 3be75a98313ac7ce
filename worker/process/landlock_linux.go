package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const noLandlock = "the kernel's Landlock is not available (%w), so programs cannot be denied these files: it needs " +
	"Linux 5.13 or newer with landlock among its security modules (kernel parameter lsm=), " +
	"and in a container an engine that allows it (Docker 20.10.13 or newer). Without this setting the worker starts, " +
	"but programs without a sandbox can read its keys"

// newLandlockPool returns a pool whose programs may read everything but these paths. Landlock restricts a thread and
// what it starts, so only the threads of the pool are restricted, and starting a program costs nothing more.
func newLandlockPool(paths []string) (*spawnPool, error) {
	version, _, errno := syscall.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0,
		unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return nil, fmt.Errorf(noLandlock, errno)
	}
	handled := uint64(unix.LANDLOCK_ACCESS_FS_READ_FILE)
	if version >= 2 {
		handled |= unix.LANDLOCK_ACCESS_FS_REFER // move files between folders
	}
	// close-on-exec
	rules, _, errno := syscall.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&handled)),
		unsafe.Sizeof(handled), 0)
	if errno != 0 {
		return nil, fmt.Errorf(noLandlock, errno)
	}
	if err := allowBeside("/", paths, func(path string) error { return allow(int(rules), path, handled) }); err != nil {
		return nil, fmt.Errorf("cannot list the files beside it: %w", err)
	}
	p := &spawnPool{requests: make(chan *spawnRequest), prepare: func() error { return restrict(int(rules)) }}
	return p, p.open()
}

// allow allows to read a file, or everything below a folder.
func allow(rules int, path string, rights uint64) error {
	fd, err := syscall.Open(path, unix.O_PATH|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.EACCES) { // deleted, or unreadable anyway
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer syscall.Close(fd)
	var is syscall.Stat_t
	if err := syscall.Fstat(fd, &is); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if is.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		rights &= unix.LANDLOCK_ACCESS_FS_READ_FILE
	}
	rule := struct {
		rights uint64
		fd     int32
	}{rights, int32(fd)}
	if _, _, errno := syscall.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(rules),
		unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("%s: %w", path, errno)
	}
	return nil
}

// restrict restricts this thread for good. Landlock also requires that its programs gain no rights by set-user-id
// files.
func restrict(rules int) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf(noLandlock, err)
	}
	if _, _, errno := syscall.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(rules), 0, 0); errno != 0 {
		return fmt.Errorf(noLandlock, errno)
	}
	return nil
}

// allowBeside calls give for the fewest paths that cover everything below dir except the hidden ones. It skips links;
// their targets are covered themselves.
func allowBeside(dir string, hidden []string, give func(path string) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case slices.Contains(hidden, path), e.Type()&os.ModeSymlink != 0:
		case e.IsDir() && slices.ContainsFunc(hidden, func(p string) bool { return strings.HasPrefix(p, path+"/") }):
			err = allowBeside(path, hidden, give)
		default:
			err = give(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
