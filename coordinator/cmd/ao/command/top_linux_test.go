package command

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/term"
)

// terminal is a pseudo terminal: what a person sees and types at, and what the program has.
func terminal(t *testing.T, rows, columns uint16) (person, program *os.File) {
	t.Helper()
	open := func(name string) *os.File {
		f, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOCTTY, 0)
		if err != nil {
			t.Skipf("no pseudo terminals here: %v", err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	control := func(f *os.File, request uintptr, arg unsafe.Pointer) {
		c, err := f.SyscallConn()
		if err == nil {
			err = c.Control(func(fd uintptr) {
				if _, _, no := syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(arg)); no != 0 {
					t.Errorf("ioctl: %v", no)
				}
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	person = open("/dev/ptmx")
	var locked, number int32
	control(person, syscall.TIOCSPTLCK, unsafe.Pointer(&locked))
	control(person, syscall.TIOCGPTN, unsafe.Pointer(&number))
	program = open("/dev/pts/" + strconv.Itoa(int(number)))
	size := [4]uint16{rows, columns}
	control(program, syscall.TIOCSWINSZ, unsafe.Pointer(&size))
	return person, program
}

// TestTopAtATerminal: it has a screen of its own, as wide and high as that is, obeys q, and leaves the terminal as it
// was. A dumb one gets no escapes.
func TestTopAtATerminal(t *testing.T) {
	t.Setenv("AO_URL", serve(t, (&stand{}).ServeHTTP))
	for _, tt := range []struct {
		kind, seen, key string // what the terminal is, and what is typed when something is seen
	}{{"xterm", "q quits", "q"}, {"xterm", "q quits", "\x03"}, {"dumb", "run_1", "q\n"}} {
		t.Run(tt.kind+" "+strings.TrimSpace(tt.key), func(t *testing.T) {
			t.Setenv("TERM", tt.kind)
			person, program := terminal(t, 9, 40)
			before, err := term.GetState(int(program.Fd()))
			if err != nil {
				t.Fatal(err)
			}
			shown := make(chan string)
			go func() {
				var all strings.Builder
				b := make([]byte, 4096)
				typed := false
				for !strings.Contains(all.String(), "THE END") {
					n, err := person.Read(b)
					if err != nil {
						break
					}
					all.Write(b[:n])
					if !typed && strings.Contains(all.String(), tt.seen) {
						typed = true
						_, _ = person.WriteString(tt.key)
					}
				}
				shown <- all.String()
			}()
			code := Main(t.Context(), []string{"top"}, program, program, program, nil)
			after, err := term.GetState(int(program.Fd()))
			if err != nil || code != exitDone || *after != *before {
				t.Errorf("%d %v; the terminal was left as %v, it was %v", code, err, after, before)
			}
			_, _ = program.WriteString("THE END")
			all := <-shown
			if tt.kind == "dumb" {
				if strings.Contains(all, "\x1b") || !strings.Contains(all, "autonomous.p.00ff") {
					t.Errorf("%q", all)
				}
				return
			}
			if !strings.HasPrefix(all, enterScreen+cursorHome+"ao top  http://127.0.0.1:") ||
				!strings.Contains(all, clearLine+clearBelow) || !strings.Contains(all, leaveScreen) {
				t.Errorf("%q", all)
			}
			picture, _, _ := strings.Cut(strings.TrimPrefix(all, enterScreen), clearBelow)
			lines := strings.Split(strings.ReplaceAll(strings.TrimPrefix(picture, cursorHome), clearLine, ""), "\r\n")
			if len(lines) > 9 || lines[len(lines)-1] != "q quits" {
				t.Errorf("%d lines: %q", len(lines), lines)
			}
			for _, l := range lines {
				if len([]rune(l)) > 40 {
					t.Errorf("%q is too long", l)
				}
			}
		})
	}
}
