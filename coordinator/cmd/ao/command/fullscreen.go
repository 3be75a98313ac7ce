package command

import (
	"os"
	"strings"

	"ao/coordinator/cmd/ao/screen"

	"golang.org/x/term"
)

// Terminal control sequences.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	cursorHome  = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// fullScreen is a terminal to draw on.
type fullScreen struct {
	app *app
	out *os.File // nil if the output is no terminal or a dumb one
}

func newFullScreen(a *app) fullScreen {
	f, ok := a.out.(*os.File)
	if kind := os.Getenv("TERM"); !ok || a.json || kind == "" || kind == "dumb" || !term.IsTerminal(int(f.Fd())) {
		return fullScreen{app: a}
	}
	return fullScreen{a, f}
}

// paint draws in place what render returns for a height in lines.
func (s fullScreen) paint(render func(height int) []string) error {
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	var b strings.Builder
	b.WriteString(cursorHome)
	for i, line := range append(render(height-1), "q quits") {
		if i > 0 {
			b.WriteString("\r\n") // raw mode needs the carriage return
		}
		b.WriteString(screen.Truncate(line, width) + clearLine)
	}
	return s.app.print(b.String() + clearBelow)
}

// watchKeys calls quit on q or Ctrl-C, unbuffered if the input is a terminal. Its goroutine cannot be cancelled; it
// ends with the program.
func (s fullScreen) watchKeys(quit func()) (restore func(), err error) {
	restore = func() {}
	f, file := s.app.in.(*os.File)
	switch {
	case file && !term.IsTerminal(int(f.Fd())): // the input of another program
		return restore, nil
	case file && s.out != nil:
		before, err := term.MakeRaw(int(f.Fd()))
		if err != nil {
			return nil, err
		}
		restore = func() { _ = term.Restore(int(f.Fd()), before) }
	}
	go func() {
		b := make([]byte, 16)
		for {
			n, err := s.app.in.Read(b)
			if strings.ContainsAny(string(b[:n]), "qQ\x03") {
				quit()
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return restore, nil
}
