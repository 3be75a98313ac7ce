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

// What a terminal is told: a screen of its own without a cursor, and back; where a picture begins; what is left of a line, and of the
// screen, is cleared.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	cursorHome  = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// watch shows one picture after the other until somebody types q or Ctrl-C: that is how a watch ends well. A coordinator that is away is
// waited for; one that refuses ends it.
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

// terminal is the terminal that pictures are painted on; nil where the output is none, or one that does not know how.
func (t *top) terminal() *os.File {
	f, ok := t.app.out.(*os.File)
	if kind := os.Getenv("TERM"); !ok || t.app.json || kind == "" || kind == "dumb" || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return f
}

// draw shows the picture: over the one before on a terminal, else behind it.
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
	for i, line := range append(t.render(height-1), "q ends") {
		if i > 0 {
			b.WriteString("\r\n") // a raw terminal does not go back by itself
		}
		b.WriteString(screen.Truncate(line, width) + clearLine)
	}
	return t.app.print(b.String() + clearBelow)
}

// watchKeys has what is typed looked at, key by key where the input is a terminal: q and Ctrl-C quit. Whoever waits for a key can't be called
// back; that one goes with the program.
func (t *top) watchKeys(quit func()) (restore func(), err error) {
	restore = func() {}
	f, file := t.app.in.(*os.File)
	switch {
	case file && !term.IsTerminal(int(f.Fd())): // somebody else's input
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
		Long: `Watch how everything stands, once a second: queues with what waits in them, runners with their slots and when they were heard, runs by
status, rates, the newest runs. q or Ctrl-C ends it. Where the output is no terminal, or a dumb one, one picture follows the other;
with --json each is a document on a line: {"status":…,"runners":[…],"runs":[…]}.`,
		Example: "  ao top\n  ao top --once --json | jq .status.queues",
	}
	c.Flags().BoolVar(&once, "once", false, "one picture, then end (rates need two: there are none)")
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
