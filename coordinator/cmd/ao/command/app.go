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

	"ao/coordinator/cmd/ao/connection"
	"ao/coordinator/cmd/ao/param"
	"ao/coordinator/cmd/ao/screen"
	client "ao/shared/clients/go"
	"ao/shared/strictjson"

	"github.com/spf13/cobra"
)

// app is one invocation: its input, output and flags.
type app struct {
	in       io.Reader
	out      io.Writer
	outErr   error // the first of out; Main reports it, so only what prints for long checks it
	terminal bool  // out is a terminal, so output must be escaped
	errs     *lineWriter
	now      func() time.Time
	servers  Servers

	url, token, ca string
	json           bool
	client         *client.Client // retries during outages
	once           *client.Client // sends each request once
	parsed         bool           // the command line is valid; later errors are not usage errors
}

// connect creates the client after flags are parsed. It sends nothing.
func (a *app) connect() error {
	var err error
	a.client, err = connection.New(connection.Config{URL: cmp.Or(a.url, os.Getenv("AO_URL")),
		Token: cmp.Or(a.token, os.Getenv("AO_TOKEN")), CA: cmp.Or(a.ca, os.Getenv("AO_CA")),
		Notice: func(s string) { a.note("%s", s) }})
	if err != nil {
		return err
	}
	a.once = a.client.Once()
	return nil
}

// withClient wraps a command that uses the API. Its errors are not usage errors, unless made by usagef.
func (a *app) withClient(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if err := a.connect(); err != nil {
			return err
		}
		a.parsed = true
		return f(c.Context(), args)
	}
}

// note prints a message on standard error, unless --json is set.
func (a *app) note(format string, args ...any) {
	if !a.json {
		a.errs.println(screen.Text(fmt.Sprintf(format, args...)))
	}
}

// printDoc prints a document of the API on one line, for programs.
func (a *app) printDoc(raw json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		a.outErr = cmp.Or(a.outErr, err)
	}
	return a.print(a.safeJSON(b.Bytes()), "\n")
}

// printJSON prints a value as a document.
func (a *app) printJSON(v any) error {
	raw, err := strictjson.Encode(v)
	if err != nil {
		return err
	}
	return a.printDoc(raw)
}

// printPretty prints a document of the API indented, for people.
func (a *app) printPretty(raw json.RawMessage) error {
	return a.print(a.safeJSON([]byte(indented(raw))), "\n")
}

func indented(raw json.RawMessage) string { return strictjson.Indent(raw, 64<<20) }

func (a *app) safeJSON(raw []byte) string {
	if a.terminal {
		return screen.JSON(raw)
	}
	return string(raw)
}

// lastCell returns the text of a row's last cell: cut on a terminal, complete otherwise.
func (a *app) lastCell(s string) string {
	if a.terminal {
		return screen.Truncate(s, lastCellWidth)
	}
	return strings.TrimSpace(s)
}

// print prints texts unless that has failed before.
func (a *app) print(texts ...string) error {
	if a.outErr == nil {
		_, a.outErr = io.WriteString(a.out, strings.Join(texts, ""))
	}
	return a.outErr
}

// fetch gets and decodes a document of the API.
func fetch[T any](ctx context.Context, a *app, path ...string) (v T, err error) {
	doc, err := a.once.Read(ctx, nil, path...)
	if err == nil {
		err = json.Unmarshal(doc, &v)
	}
	return v, err
}

// show prints a document of the API: with --json as it is, otherwise by print.
func show[T any](a *app, doc json.RawMessage, err error, print func(*app, T) error) error {
	var v T
	switch {
	case err != nil:
		return err
	case a.json:
		return a.printDoc(doc)
	}
	if err := json.Unmarshal(doc, &v); err != nil {
		return err
	}
	return print(a, v)
}

// done prints the answer to a change: with --json as it is, otherwise a note.
func (a *app) done(doc json.RawMessage, err error, format string, args ...any) error {
	switch {
	case err != nil:
		return err
	case a.json && len(doc) > 0:
		return a.printDoc(doc)
	}
	a.note(format, args...)
	return nil
}

// printList prints a list: with --json its documents, one per line. Otherwise it calls add for each item and prints the
// table, if there is one. For an empty list it prints none as a note.
func printList[T any](a *app, p client.Page, none string, table *screen.Table, add func(T)) error {
	for _, doc := range p.Items {
		if a.json {
			a.printDoc(doc)
			continue
		}
		var v T
		if err := json.Unmarshal(doc, &v); err != nil {
			return err
		}
		add(v)
	}
	if !a.json && len(p.Items) == 0 {
		a.note("%s", none)
	} else if !a.json && table != nil {
		a.print(table.String())
	}
	if p.Next != "" {
		a.errs.println(screen.Line("more: repeat the command with --cursor " + p.Next + " or --all"))
	}
	return nil
}

// at and age format a time; empty for nil.
func (a *app) at(t *time.Time) string  { return screen.At(a.now(), *cmp.Or(t, new(time.Time))) }
func (a *app) age(t *time.Time) string { return screen.Age(a.now(), *cmp.Or(t, new(time.Time))) }

// readObject reads a JSON object from a source; noun names it in errors.
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

// inline reports whether a source is the JSON text itself.
func inline(what string) bool { return strings.HasPrefix(strings.TrimSpace(what), "{") }

// readSource reads the source of a flag or argument: - is standard input, {…} is inline, anything else a file.
func (a *app) readSource(what string) ([]byte, error) {
	switch {
	case what == "-":
		raw, err := io.ReadAll(a.in)
		return strictjson.TrimBOM(raw), err
	case inline(what):
		return []byte(what), nil
	}
	raw, err := os.ReadFile(what)
	if err != nil {
		return nil, usagef("%s; give a file, inline {…}, or - for standard input", errorText(err))
	}
	return strictjson.TrimBOM(raw), nil
}

// lineWriter writes whole lines and is safe for concurrent use.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lineWriter) println(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = fmt.Fprintln(l.w, strings.TrimRight(s, "\n")) // an error on standard error cannot be reported
}

// seconds is a flag: a duration in whole seconds, such as 90, 90s or 2m. Zero: not given.
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
	maxListed     = 1000 // maximum rows per page
)
