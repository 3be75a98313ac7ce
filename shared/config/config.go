// Package config is the configuration of every program: a table of settings, each with its flag, its environment
// variable, its default and an example. A flag beats the environment; a variable that is set to nothing counts as
// not set. What cannot be parsed stops the program with the variable's name, the value and an example.
package config

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
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
	Secret  bool // its value is shown to nobody
}

// Bound is a setting that a program uses, with the place its value goes to.
type Bound struct {
	env, flag, short, def, doc, example string
	toggle                              bool // may stand without a value: --flag
	read                                func(string) error
	raw                                 *string // as given by flag
	secret                              bool
	value                               string // that is in force, as it was written
	source                              string
}

// InForce is a setting with the value that a program goes by, for people to see.
type InForce struct {
	Name    string `json:"name"`    // the environment variable
	Value   string `json:"value"`   // as it was written; of a secret Set or Unset
	Default string `json:"default"` // empty: none, or help says it
	Source  string `json:"source"`
	Help    string `json:"help"`
	Secret  bool   `json:"secret"`
}

// Where a value is from.
const (
	FromFlag        = "flag"
	FromEnvironment = "environment"
	FromDefault     = "default"
)

// What is shown of a secret.
const (
	Set   = "set"
	Unset = "unset"
)

// shown is a setting as it is in force.
func (s *Bound) shown() InForce {
	f := InForce{Name: s.env, Value: s.value, Default: s.def, Source: s.source, Help: s.doc, Secret: s.secret}
	switch {
	case !s.secret:
		f.Value = withoutPassword(s.value)
	case s.value == "":
		f.Value = Unset
	default:
		f.Value = Set
	}
	return f
}

// withoutPassword is a value without what an address in it has of a login.
func withoutPassword(value string) string {
	words := strings.Split(value, ",")
	for i, w := range words {
		if u, err := url.Parse(strings.TrimSpace(w)); err == nil && u.User != nil {
			u.User = url.User("••••")
			words[i] = strings.ReplaceAll(u.String(), url.User("••••").String(), "••••")
		}
	}
	return strings.Join(words, ",")
}

// To binds a setting to a variable.
func (s Setting[T]) To(p *T) Bound {
	_, toggle := any(p).(*bool)
	return Bound{env: s.Env, flag: s.Flag, short: s.Short, def: s.Default, doc: s.Doc, example: cmp.Or(s.Example, s.Default), toggle: toggle, secret: s.Secret,
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
// is a slip away from a setting's is warned of. It gives what is in force.
func Load(p Program, settings ...Bound) []InForce {
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
	return Shown(settings)
}

// Shown is what is in force of settings that Parse has read.
func Shown(settings []Bound) (all []InForce) {
	for i := range settings {
		if s := &settings[i]; s.flag != "" {
			all = append(all, s.shown())
		}
	}
	return all
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
		s.source = FromDefault
		if env, ok := lookup(s.env); ok && env != "" {
			raw, from, s.source = env, s.env, FromEnvironment
		}
		if s.raw != nil {
			raw, from, s.source = *s.raw, "--"+cmp.Or(s.flag, s.short)+" ("+s.env+")", FromFlag
		}
		s.value = raw
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
