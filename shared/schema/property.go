package schema

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"
	"sync"
	"unicode"
)

// property translates \p{…}: categories and scripts by any of their names, and the binary properties that Go has tables
// for.
func (t *translator) property(negated bool) (string, error) {
	name, rest, closed := strings.Cut(strings.TrimPrefix(t.rest, "{"), "}")
	if !closed || !strings.HasPrefix(t.rest, "{") {
		return "", errors.New(`\p must be followed by {name}`)
	}
	t.rest = rest
	key := name
	if negated {
		key = "^" + name
	}
	if set, ok := t.sets[key]; ok {
		return set, nil
	}
	set, ok := propertySet(name, negated)
	if !ok {
		return "", fmt.Errorf("%s is no known Unicode property", cut(name, 40))
	}
	t.sets[key] = set
	return set, nil
}

// composed are properties that Unicode derives from others.
var composed = map[string][]*unicode.RangeTable{
	"Alphabetic": {unicode.L, unicode.Nl, unicode.Other_Alphabetic},
	"Lowercase":  {unicode.Ll, unicode.Other_Lowercase},
	"Uppercase":  {unicode.Lu, unicode.Other_Uppercase},
}

type setKey struct {
	name    string
	negated bool
}

var tableSets sync.Map // of setKey: string

func propertySet(name string, negated bool) (string, bool) {
	if kind, of, assigned := strings.Cut(name, "="); assigned {
		switch kind {
		case "Script", "sc", "Script_Extensions", "scx", "General_Category", "gc":
			name = of
		default:
			return "", false
		}
	}
	tables := composed[name]
	if table, ok := unicode.Properties[name]; ok {
		tables = []*unicode.RangeTable{table}
	}
	if tables != nil {
		key := setKey{name, negated}
		set, ok := tableSets.Load(key)
		if !ok { // going through all of Unicode takes milliseconds, and there are few names
			set, _ = tableSets.LoadOrStore(key, ranges(negated, tables...))
		}
		return set.(string), true
	}
	set := `\p{` + name + `}`
	if negated {
		set = `\P{` + name + `}`
	}
	if strings.ContainsAny(name, `^\{ `) {
		return "", false
	}
	_, err := syntax.Parse(set, syntax.Perl)
	return set, err == nil
}

// ranges writes tables as the inside of a class.
func ranges(negated bool, tables ...*unicode.RangeTable) string {
	in := make([]bool, unicode.MaxRune+2) // the last stays out, and ends the last range
	for r := range in[:unicode.MaxRune+1] {
		in[r] = negated
	}
	for _, t := range tables {
		for _, r := range t.R16 {
			mark(in, rune(r.Lo), rune(r.Hi), rune(r.Stride), !negated)
		}
		for _, r := range t.R32 {
			mark(in, rune(r.Lo), rune(r.Hi), rune(r.Stride), !negated)
		}
	}
	var b strings.Builder
	start := -1
	for r, hit := range in {
		switch {
		case hit && start < 0:
			start = r
		case !hit && start >= 0:
			fmt.Fprintf(&b, `\x{%x}-\x{%x}`, start, r-1)
			start = -1
		}
	}
	return b.String()
}

func mark(in []bool, low, high, stride rune, as bool) {
	for r := low; r <= high; r += stride {
		in[r] = as
	}
}
