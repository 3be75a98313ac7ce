package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"ao/coordinator/cmd/ao/client"
	"ao/coordinator/cmd/ao/param"
	"ao/coordinator/cmd/ao/screen"

	"github.com/spf13/cobra"
)

// app is one start of the program: where it reads and writes, and whom it asks.
type app struct {
	in       io.Reader
	out      io.Writer
	terminal bool // out is one, so what it is shown must not steer it
	errs     *lineWriter
	now      func() time.Time

	url    string
	token  string
	ca     string
	json   bool
	client *client.Client
	parsed bool // the words were understood; what fails from here on is not their fault
}

// connect makes the client, once flags are read. Nothing is sent yet.
func (a *app) connect() error {
	c, err := client.New(client.Config{URL: cmp.Or(a.url, os.Getenv("AO_URL")), Token: cmp.Or(a.token, os.Getenv("AO_TOKEN")), CA: cmp.Or(a.ca, os.Getenv("AO_CA")), Notice: func(s string) { a.note("%s", s) }})
	a.client = c
	return err
}

// withClient is a command's work: what it fails with is not a misunderstanding, unless it says so (usagef).
func (a *app) withClient(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if err := a.connect(); err != nil {
			return err
		}
		a.parsed = true
		return f(c.Context(), args)
	}
}

// note tells a person something beside the result; programs are spared it.
func (a *app) note(format string, args ...any) {
	if !a.json {
		a.errs.println(screen.Text(fmt.Sprintf(format, args...)))
	}
}

// printDoc prints a document of the API: for programs.
func (a *app) printDoc(raw json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return err
	}
	return a.print(a.safeJSON(b.Bytes()) + "\n")
}

// printPretty prints a document of the API: for people.
func (a *app) printPretty(raw json.RawMessage) error {
	return a.print(a.safeJSON([]byte(indented(raw))) + "\n")
}

func indented(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

func (a *app) safeJSON(raw []byte) string {
	if a.terminal {
		return screen.JSON(raw)
	}
	return string(raw)
}

// lastCell is the last cell of a row: whole for a program that reads on, for a person not more than two lines or so.
func (a *app) lastCell(s string) string {
	if a.terminal {
		return screen.Truncate(s, lastCellWidth)
	}
	return strings.TrimSpace(s)
}

func (a *app) print(s string) error {
	_, err := io.WriteString(a.out, s)
	return err
}

// printList prints documents one per line for programs; for people row adds each to a table, or, without one, shows it itself.
// none is what a person reads where there are none.
func (a *app) printList(p client.Page, none string, table *screen.Table, row func(json.RawMessage) error) error {
	for _, item := range p.Items {
		show := row
		if a.json {
			show = a.printDoc
		}
		if err := show(item); err != nil {
			return err
		}
	}
	switch {
	case a.json:
		return nil
	case len(p.Items) == 0:
		a.note("%s", none)
		return nil
	case table == nil:
		return nil
	}
	return table.Write(a.out)
}

// readObject reads a JSON object from a source; noun is what the object is called where it is none.
func (a *app) readObject(noun, what string) ([]byte, error) {
	raw, err := a.readSource(what)
	if err != nil {
		return nil, err
	}
	if _, err := param.ParseObject(raw); err != nil {
		switch {
		case what == "-":
			noun += " from standard input"
		case !inline(what):
			noun += " from " + what
		}
		return nil, usagef("%s: %w", noun, err)
	}
	return raw, nil
}

// inline tells whether a source is the text itself.
func inline(what string) bool { return strings.HasPrefix(strings.TrimSpace(what), "{") }

// readSource reads what a flag or argument stands for: - is standard input, {…} is itself, anything else a file.
func (a *app) readSource(what string) ([]byte, error) {
	switch {
	case what == "-":
		return io.ReadAll(a.in)
	case inline(what):
		return []byte(what), nil
	}
	raw, err := os.ReadFile(what)
	if err != nil {
		return nil, usagef("%s; name a file, give {…} itself, or - for standard input", errorText(err))
	}
	return raw, nil
}

// lineWriter writes whole lines, from several goroutines.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lineWriter) println(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = fmt.Fprintln(l.w, strings.TrimRight(s, "\n")) // nobody can be told that nobody can be told
}

// seconds is a duration in whole seconds: 90, 90s, 2m. Zero: not given.
type seconds time.Duration

func (s *seconds) String() string {
	if *s == 0 {
		return ""
	}
	return time.Duration(*s).String()
}

func (s *seconds) Type() string { return "duration" }

func (s *seconds) Set(text string) error {
	if n, err := strconv.Atoi(text); err == nil {
		text = strconv.Itoa(n) + "s"
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second || d%time.Second != 0 {
		return errors.New("write whole seconds, such as 90, 90s or 2m")
	}
	*s = seconds(d)
	return nil
}

const (
	noteWidth     = 60   // characters of a description beside a completion
	lastCellWidth = 160  // characters of a table's last column on a terminal
	maxListed     = 1000 // rows of a page
)
