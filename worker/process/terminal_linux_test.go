package process

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// terminal opens a pseudo terminal: the user's end and the programs' end.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	const unlock, number = 0x40045431, 0x80045430 // TIOCSPTLCK, TIOCGPTN
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { master.Close() })
	var zero, n int32
	for what, arg := range map[uintptr]*int32{unlock: &zero, number: &n} {
		if _, _, err := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), what, uintptr(unsafe.Pointer(arg))); err != 0 {
			t.Fatal(err)
		}
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

// TestNoTerminalIsLeftToAProgram: a worker with a terminal starts a program, which has none, nor have its children.
// Ctrl-C on the terminal reaches the worker only.
func TestNoTerminalIsLeftToAProgram(t *testing.T) {
	t.Parallel()
	_, slave := terminal(t)
	output := filepath.Join(t.TempDir(), "said")
	ask := `if (: <>/dev/tty) 2>/dev/null; then echo terminal; else echo none; fi`
	script := `{ ` + ask + `; sh -c '` + ask + `'; echo $$ $(cut -d' ' -f5,6,7 /proc/$$/stat); } >` + output
	worker := exec.Command(os.Args[0])
	worker.Env = []string{"PROCESS_TEST_WORKER=" + script, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir()}
	worker.Stdin, worker.Stdout, worker.Stderr = slave, slave, slave
	worker.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := worker.Run(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	var pid, group, session, tty int
	first, second, _ := strings.Cut(string(bytes.TrimSpace(text)), "\n")
	second, third, _ := strings.Cut(second, "\n")
	if n, _ := fmt.Sscan(third, &pid, &group, &session, &tty); n != 4 || first != "none" || second != "none" ||
		group != pid || session != pid || tty != 0 {
		t.Errorf("a program says %q; it should lead a group and a session without a terminal", text)
	}
}
