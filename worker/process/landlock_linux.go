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
)

// Landlock's system calls, which have one number on nearly every machine, and what of it is used here.
const (
	landlockCreateRuleset = 444
	landlockAddRule       = 445
	landlockRestrictSelf  = 446

	landlockVersion = 1       // a flag: tell the version
	pathBeneath     = 1       // a rule's type
	readFile        = 1 << 2  // LANDLOCK_ACCESS_FS_READ_FILE
	refer           = 1 << 13 // LANDLOCK_ACCESS_FS_REFER, from version 2 on: to move files between folders, else refused to all
)

const noLandlock = "this system has no Landlock (%w), which keeps programs from reading these files: it takes Linux 5.13 or newer with landlock among its security modules (kernel parameter lsm=), " +
	"and in a container an engine that allows it (Docker 20.10.13 or newer). Without this setting the worker starts, and programs that are in no sandbox can read its keys"

// sealed gives a pool whose programs may read everything but these paths. Landlock binds a thread and what it starts, so the threads of
// the pool are bound and nothing else of this process is: the start of a program costs nothing more.
func sealed(paths []string) (*pool, error) {
	version, _, errno := syscall.RawSyscall(landlockCreateRuleset, 0, 0, landlockVersion)
	if errno != 0 {
		return nil, fmt.Errorf(noLandlock, errno)
	}
	handled := uint64(readFile)
	if version >= 2 {
		handled |= refer
	}
	rules, _, errno := syscall.RawSyscall(landlockCreateRuleset, uintptr(unsafe.Pointer(&handled)), unsafe.Sizeof(handled), 0) // closed at an exec
	if errno != 0 {
		return nil, fmt.Errorf(noLandlock, errno)
	}
	if err := around("/", paths, func(path string) error { return allow(int(rules), path, handled) }); err != nil {
		return nil, fmt.Errorf("what lies beside it cannot be looked at: %w", err)
	}
	p := &pool{ask: make(chan *birth), bind: func() error { return restrict(int(rules)) }}
	return p, p.open()
}

// allow adds that a file, or all below a folder, may be read.
func allow(rules int, path string, rights uint64) error {
	const justName = 0x200000 // O_PATH
	fd, err := syscall.Open(path, justName|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.EACCES) { // it is gone, or nobody here can read it anyway
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
		rights &= readFile
	}
	rule := struct {
		rights uint64
		fd     int32
	}{rights, int32(fd)}
	if _, _, errno := syscall.RawSyscall6(landlockAddRule, uintptr(rules), pathBeneath, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("%s: %w", path, errno)
	}
	return nil
}

// restrict binds this thread, for good. Its programs gain no rights by set-user-id files either: Landlock demands that.
func restrict(rules int) error {
	const noNewPrivs = 38 // PR_SET_NO_NEW_PRIVS
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, noNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf(noLandlock, errno)
	}
	if _, _, errno := syscall.RawSyscall(landlockRestrictSelf, uintptr(rules), 0, 0); errno != 0 {
		return fmt.Errorf(noLandlock, errno)
	}
	return nil
}

// around gives all that lies beside the hidden paths, from a folder on: the fewest names below which nothing is hidden. Links are left
// out: what they name has its own.
func around(dir string, hidden []string, give func(path string) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case slices.Contains(hidden, path), e.Type()&os.ModeSymlink != 0:
		case e.IsDir() && slices.ContainsFunc(hidden, func(p string) bool { return strings.HasPrefix(p, path+"/") }):
			err = around(path, hidden, give)
		default:
			err = give(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
