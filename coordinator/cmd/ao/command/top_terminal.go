package command

import (
	"context"
	"os"
	"strings"
	"time"

	"ao/coordinator/cmd/ao/client"
	"ao/coordinator/cmd/ao/screen"

	"github.com/spf13/cobra"
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

// watch refreshes the screen until q or Ctrl-C, then returns nil. It waits for a coordinator that is unavailable; any
// other error ends it.
func (t *top) watch(ctx context.Context) error {
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	out := t.terminal()
	restore, err := t.watchKeys(quit)
	if err != nil {
		return err
	}
	defer restore()
	if out != nil {
		if err := t.app.print(enterScreen); err != nil {
			return err
		}
		defer func() { _ = t.app.print(leaveScreen) }()
	}
	tick := time.NewTicker(topInterval)
	defer tick.Stop()
	for {
		if err := t.draw(out); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := t.refresh(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case client.Temporary(err):
			t.lastError = err.Error()
		case err != nil:
			return err
		}
	}
}

// terminal returns the terminal to draw on; nil if the output is no terminal or a dumb one.
func (t *top) terminal() *os.File {
	f, ok := t.app.out.(*os.File)
	if kind := os.Getenv("TERM"); !ok || t.app.json || kind == "" || kind == "dumb" || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return f
}

// draw shows the current snapshot: in place on a terminal, otherwise appended.
func (t *top) draw(out *os.File) error {
	if out == nil {
		if err := t.print(); err != nil || t.app.json {
			return err
		}
		return t.app.print("\n")
	}
	width, height, err := term.GetSize(int(out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	var b strings.Builder
	b.WriteString(cursorHome)
	for i, line := range append(t.render(height-1), "q quits") {
		if i > 0 {
			b.WriteString("\r\n") // raw mode needs the carriage return
		}
		b.WriteString(screen.Truncate(line, width) + clearLine)
	}
	return t.app.print(b.String() + clearBelow)
}

// watchKeys calls quit on q or Ctrl-C, unbuffered if the input is a terminal. Its goroutine cannot be cancelled; it
// ends with the program.
func (t *top) watchKeys(quit func()) (restore func(), err error) {
	restore = func() {}
	f, file := t.app.in.(*os.File)
	switch {
	case file && !term.IsTerminal(int(f.Fd())): // the input of another program
		return restore, nil
	case file && t.terminal() != nil:
		before, err := term.MakeRaw(int(f.Fd()))
		if err != nil {
			return nil, err
		}
		restore = func() { _ = term.Restore(int(f.Fd()), before) }
	}
	go func() {
		b := make([]byte, 16)
		for {
			n, err := t.app.in.Read(b)
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

func topCommand(a *app) *cobra.Command {
	var once bool
	c := &cobra.Command{
		Use: "top", Short: "Watch queues, runners, runs and rates, live", Args: cobra.NoArgs,
		Long: `Watch the state of the deployment, refreshed every second: queues, runners with slots and heartbeats, runs by status,
rates, the newest runs. q or Ctrl-C quits. If the output is no terminal, the screens follow each other; with --json each is
one document on a line: {"status":…,"runners":[…],"runs":[…]}.`,
		Example: "  ao top\n  ao top --once --json | jq .status.queues",
	}
	c.Flags().BoolVar(&once, "once", false, "print one screen and exit (without rates, which need two)")
	c.RunE = a.withClient(func(ctx context.Context, _ []string) error {
		t := &top{app: a}
		if err := t.refresh(ctx); err != nil || !once {
			if err != nil {
				return err
			}
			return t.watch(ctx)
		}
		return t.print()
	})
	return c
}
