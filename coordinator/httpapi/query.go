package httpapi

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ao/shared/fault"
	"ao/shared/strictjson"
)

// params has a request's parameters and the first error in them.
type params struct {
	values url.Values
	err    error
}

// cursorParams may be empty: that is the first page.
var cursorParams = []string{"cursor", "after"}

// readQuery refuses parameters that are unknown, repeated or empty.
func readQuery(raw string, known []string) (params, error) {
	if raw == "" {
		return params{}, nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return params{}, fault.New(fault.Invalid, "",
			"The query string is not readable; escape special characters with %XX")
	}
	for name, all := range values {
		switch {
		case !slices.Contains(known, name) && len(known) == 0:
			return params{}, fault.Newf(fault.Invalid, "Unknown query parameter %.80q; this route knows none",
				name).With("field", name)
		case !slices.Contains(known, name):
			return params{}, fault.Newf(fault.Invalid, "Unknown query parameter %.80q; known are %s", name,
				strings.Join(known, ", ")).With("field", name)
		case len(all) > 1:
			return params{}, fault.Newf(fault.Invalid, "Query parameter %q is given %d times; give it once", name,
				len(all)).With("field", name)
		case all[0] == "" && !slices.Contains(cursorParams, name):
			return params{}, fault.Newf(fault.Invalid, "Query parameter %q is empty: give a value, or leave it out",
				name).With("field", name)
		}
	}
	return params{values: values}, nil
}

func (q *params) text(name string) string { return q.values.Get(name) }

// number reads a whole number; def where it is missing.
func (q *params) number(name string, def, least, most int) int {
	s := q.values.Get(name)
	if s == "" {
		return def
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most {
		q.fail(name, fmt.Sprintf("%s must be a whole number from %d to %d, got %.40q", name, least, most, s))
		return def
	}
	return n
}

// list reads a comma list.
func (q *params) list(name string) []string {
	s := q.values.Get(name)
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

// flag reads true or false; false where it is missing.
func (q *params) flag(name string) bool {
	switch s := q.values.Get(name); s {
	case "", "false":
		return false
	case "true":
		return true
	default:
		q.fail(name, fmt.Sprintf("%s must be true or false, got %.40q", name, s))
		return false
	}
}

// moment reads a time; zero where it is missing. An unescaped '+' has become a space.
func (q *params) moment(name string) time.Time {
	s := q.values.Get(name)
	if s == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, strings.Replace(s, " ", "+", 1))
	if err != nil {
		q.fail(name, fmt.Sprintf("%s must be a time such as 2026-01-31T12:00:00Z (RFC 3339), got %.40q", name, s))
	}
	return t
}

// check reads a parameter that f checks.
func (q *params) check(name string, f func(string) error) string {
	s := q.values.Get(name)
	if s != "" && q.err == nil {
		if err := f(s); err != nil {
			q.fail(name, strings.Replace(fault.Of(err).Message, "session_id", name, 1))
		}
	}
	return s
}

func (q *params) fail(name, text string) {
	if q.err == nil {
		q.err = fault.New(fault.Invalid, "", text).With("field", name)
	}
}

// decode reads an optional body as JSON.
func (q request) decode(into any) error {
	if len(bytes.TrimSpace(q.body)) == 0 {
		return nil
	}
	return strictjson.Decode(q.body, into)
}
