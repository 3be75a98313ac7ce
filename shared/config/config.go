// Package config reads the configuration of every program from a table of settings, each with a flag, an
// environment variable, a default and an example. A flag beats the environment; an empty variable counts as
// unset. An invalid value stops the program with the variable's name, the value and an example.
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

// Setting is a row of the table: one configurable value and how it is read.
type Setting[T any] struct {
	Env     string
	Flag    string // without dashes
	Short   string // a second name of the flag, usually one letter
	Default string // as a user would write it; empty: the zero value
	Doc     string // one line
	Example string // of a legal value, as a user would write it
	Read    func(string) (T, error)
	Secret  bool // its value is never shown
}

// Bound is a setting bound to a variable of the program.
type Bound struct {
	env, flag, short, def, doc, example string
	toggle                              bool // may be given without a value: --flag
	read                                func(string) error
	raw                                 *string // the flag's value
	secret                              bool
	value                               string // the effective value, as it was written
	source                              string
}

// EffectiveSetting is a setting with its effective value, to be shown to people.
type EffectiveSetting struct {
	Name    string `json:"name"`    // the environment variable
	Value   string `json:"value"`   // as it was written; for a secret "set" or "unset"
	Default string `json:"default"` // empty: none, or described in Help
	Source  string `json:"source"`
	Help    string `json:"help"`
	Secret  bool   `json:"secret"`
}

// The sources of a value.
const (
	FromFlag        = "flag"
	FromEnvironment = "environment"
	FromDefault     = "default"
)

// What is shown instead of a secret.
const (
	secretSet   = "set"
	secretUnset = "unset"
)

// inForce returns the setting with its effective value.
func (s *Bound) inForce() EffectiveSetting {
	f := EffectiveSetting{Name: s.env, Value: s.value, Default: s.def, Source: s.source, Help: s.doc, Secret: s.secret}
	switch {
	case !s.secret:
		f.Value = redactLogin(s.value)
	case s.value == "":
		f.Value = secretUnset
	default:
		f.Value = secretSet
	}
	return f
}

// redactLogin hides the logins of addresses in a value.
func redactLogin(value string) string {
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
	return Bound{env: s.Env, flag: s.Flag, short: s.Short, def: s.Default, doc: s.Doc,
		example: cmp.Or(s.Example, s.Default), toggle: toggle, secret: s.Secret,
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

// Renamed returns a setting's old name. A program that lists it does not start when it is set, and names the new one.
func Renamed(env, flag, now string) Bound {
	return Bound{env: env, short: flag, read: func(raw string) error {
		if raw == "" {
			return nil
		}
		return fmt.Errorf("was renamed: set %s instead", now)
	}}
}

// Program is what --help shows besides the settings.
type Program struct {
	Name  string
	About string // a sentence or two
}

// errHelp means that the command line asks for help.
var errHelp = errors.New("help requested")

// Load is Parse for a main function, with the process's arguments and environment. Help, --version and errors
// end the process. It warns of variables with mistyped names, and returns the effective settings.
func Load(p Program, settings ...Bound) []EffectiveSetting {
	if len(os.Args) == 2 && strings.TrimLeft(os.Args[1], "-") == "version" {
		fmt.Print(version.Line(p.Name))
		os.Exit(0)
	}
	err := Parse(p, os.Args[1:], os.LookupEnv, settings...)
	if errors.Is(err, errHelp) {
		fmt.Print(helpText(p, settings...))
		os.Exit(0)
	}
	for _, w := range mistypedWarnings(os.Environ(), settings) {
		fmt.Fprintf(os.Stderr, "%s: warning: %s\n", p.Name, w)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n(%s --help lists all settings)\n", p.Name, err, p.Name)
		os.Exit(2)
	}
	return inForce(settings)
}

// inForce returns the effective settings after Parse.
func inForce(settings []Bound) (all []EffectiveSetting) {
	for i := range settings {
		if s := &settings[i]; s.flag != "" {
			all = append(all, s.inForce())
		}
	}
	return all
}

// Parse reads every setting from the arguments, else the environment, else its default. The error lists
// everything that is wrong, one per line. It is errHelp if help is asked for.
func Parse(p Program, args []string, lookup func(string) (string, bool), settings ...Bound) error {
	flags := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	for i := range settings {
		s := &settings[i]
		for _, name := range []string{s.flag, s.short} {
			if name != "" {
				flags.Var((*flagValue)(s), name, s.doc)
			}
		}
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return errHelp
	case err != nil:
		return errors.New(flagMessages.Replace(err.Error()))
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

// flagMessages rewords the errors of package flag.
var flagMessages = strings.NewReplacer("flag provided but not defined: ", "unknown flag ", "flag needs an argument: ",
	"missing value after ", "bad flag syntax: ", "invalid flag: ")

func (s *Bound) explain(from, raw string, err error) error {
	if s.example == "" {
		return fmt.Errorf("%s=%s %w", from, raw, err)
	}
	return fmt.Errorf("%s: %q %w; for example %s=%s", from, raw, err, s.env, s.example)
}

// flagValue stores a flag's value; Parse reads it.
type flagValue Bound

func (g *flagValue) String() string     { return g.def }
func (g *flagValue) IsBoolFlag() bool   { return g.toggle }
func (g *flagValue) Set(v string) error { g.raw = &v; return nil }

// helpText lists every setting with its flag, variable, default and meaning.
func helpText(p Program, settings ...Bound) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage: %s [flags]\n\nA flag beats its environment variable. Durations: seconds, or "+
		"like 1m30s. --version shows the build.\n\n", p.About, p.Name)
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
