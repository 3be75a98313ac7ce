// Package setting is the configuration of every program: a table of settings, each with its flag, its environment
// variable, its default and an example. A flag beats the environment; a variable that is set to nothing counts as
// not set. What cannot be parsed stops the program with the variable's name, the value and an example.
package setting

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"ao/shared/version"
)

// Setting is a row of the table: one value that can be configured, and how it is read.
type Setting[T any] struct {
	Env     string
	Flag    string // without dashes
	Short   string // a second name of the flag, mostly one letter
	Default string // as it would be written; empty: the zero value
	Doc     string // one line
	Example string // of a legal value, as it would be written
	Read    func(string) (T, error)
}

// Bound is a setting that a program uses, with the place its value goes to.
type Bound struct {
	env, flag, short, def, doc, example string
	toggle                              bool // may stand without a value: --flag
	read                                func(string) error
	raw                                 *string // as given by flag
}

// To binds a setting to a variable.
func (s Setting[T]) To(p *T) Bound {
	_, toggle := any(p).(*bool)
	return Bound{env: s.Env, flag: s.Flag, short: s.Short, def: s.Default, doc: s.Doc, example: cmp.Or(s.Example, s.Default), toggle: toggle,
		read: func(raw string) error {
			if raw == "" {
				var zero T
				*p = zero
				return nil
			}
			v, err := s.Read(raw)
			if err == nil {
				*p = v
			}
			return err
		}}
}

// WithDefault is the setting with another default, for a program that has one of its own.
func (s Setting[T]) WithDefault(def string) Setting[T] {
	s.Default = def
	return s
}

// NotYet is a variable of a later version: a program that uses this row refuses to start when it is set, since
// nothing is accepted and ignored.
func NotYet(env, why string) Bound {
	return Bound{env: env, read: func(raw string) error {
		if raw == "" {
			return nil
		}
		return fmt.Errorf("is not supported yet: %s", why)
	}}
}

// Renamed is a setting's old name: a program that uses this row refuses to start when it is set, and says the new one.
func Renamed(env, flag, now string) Bound {
	return Bound{env: env, short: flag, read: func(raw string) error {
		if raw == "" {
			return nil
		}
		return fmt.Errorf("has another name now: set %s instead", now)
	}}
}

// Program is what --help says of a program besides its settings.
type Program struct {
	Name  string
	About string // a sentence or two
}

// ErrHelp says that the command line asks for help; Help has the text.
var ErrHelp = errors.New("help requested")

// Load is Parse for a main: with the process's arguments and environment. Help, --version and errors end the process; a variable whose name
// is a slip away from a setting's is warned of.
func Load(p Program, settings ...Bound) {
	if len(os.Args) == 2 && strings.TrimLeft(os.Args[1], "-") == "version" {
		fmt.Print(version.Line(p.Name))
		os.Exit(0)
	}
	err := Parse(p, os.Args[1:], os.LookupEnv, settings...)
	if errors.Is(err, ErrHelp) {
		fmt.Print(Help(p, settings...))
		os.Exit(0)
	}
	for _, w := range mistyped(os.Environ(), settings) {
		fmt.Fprintf(os.Stderr, "%s: warning: %s\n", p.Name, w)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n(%s --help lists all settings)\n", p.Name, err, p.Name)
		os.Exit(2)
	}
}

// Parse reads every setting from the arguments, else from the environment, else from its default. The error lists
// all that is wrong, one a line; it is ErrHelp where help is asked for.
func Parse(p Program, args []string, lookup func(string) (string, bool), settings ...Bound) error {
	flags := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	for i := range settings {
		s := &settings[i]
		for _, name := range []string{s.flag, s.short} {
			if name != "" {
				flags.Var((*given)(s), name, s.doc)
			}
		}
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return ErrHelp
	case err != nil:
		return errors.New(plain.Replace(err.Error()))
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q; every setting is a flag or a variable", flags.Arg(0))
	}
	var wrong []error
	for i := range settings {
		s := &settings[i]
		raw, from := s.def, ""
		if env, ok := lookup(s.env); ok && env != "" {
			raw, from = env, s.env
		}
		if s.raw != nil {
			raw, from = *s.raw, "--"+cmp.Or(s.flag, s.short)+" ("+s.env+")"
		}
		if err := s.read(raw); err != nil {
			wrong = append(wrong, s.explain(cmp.Or(from, s.env), raw, err))
		}
	}
	return errors.Join(wrong...)
}

// plain gives what Go's package flag says in words of ours.
var plain = strings.NewReplacer("flag provided but not defined: ", "there is no flag ", "flag needs an argument: ", "a value is missing after ", "bad flag syntax: ", "this is no flag: ")

func (s *Bound) explain(from, raw string, err error) error {
	if s.example == "" {
		return fmt.Errorf("%s=%s %w", from, raw, err)
	}
	return fmt.Errorf("%s: %q %w; for example %s=%s", from, raw, err, s.env, s.example)
}

// given notes what a flag was given; it is read with all others.
type given Bound

func (g *given) String() string     { return g.def }
func (g *given) IsBoolFlag() bool   { return g.toggle }
func (g *given) Set(v string) error { g.raw = &v; return nil }

// Help lists every setting with its flag, variable, default and meaning.
func Help(p Program, settings ...Bound) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage: %s [flags]\n\nA flag beats its environment variable. Durations: seconds, or like 1m30s. --version tells the build.\n\n", p.About, p.Name)
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "FLAG\tVARIABLE\tDEFAULT\tMEANING")
	for _, s := range settings {
		if s.flag == "" {
			continue
		}
		name := "--" + s.flag
		if s.short != "" {
			name = "-" + s.short + ", " + name
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", name, s.env, cmp.Or(s.def, "-"), s.doc)
	}
	w.Flush()
	return b.String()
}
