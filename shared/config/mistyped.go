package config

import (
	"fmt"
	"slices"
	"strings"
)

// mistypedWarnings warns of variables that no setting reads, but whose names are one typing error away from a
// setting's.
func mistypedWarnings(environ []string, settings []Bound) (warnings []string) {
	for _, set := range environ {
		name, value, _ := strings.Cut(set, "=")
		if value == "" || slices.ContainsFunc(settings, func(s Bound) bool { return s.env == name }) {
			continue
		}
		if i := slices.IndexFunc(settings, func(s Bound) bool { return similar(name, s.env) }); i >= 0 {
			warnings = append(warnings, fmt.Sprintf("%s is set but is not a setting; do you mean %s?", name,
				settings[i].env))
		}
	}
	slices.Sort(warnings)
	return warnings
}

// similar reports whether two names are one typing error apart: a letter too many, too few or wrong, or two swapped.
func similar(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	switch rest := b[i:]; {
	case len(a) == len(b) && rest != "":
		swapped := len(rest) > 1 && a[i] == rest[1] && a[i+1] == rest[0] && a[i+2:] == rest[2:]
		return swapped || a[i+1:] == rest[1:]
	case len(a)+1 == len(b):
		return a[i:] == rest[1:]
	}
	return false
}
