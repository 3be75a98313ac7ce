package schema

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

const (
	// of the program that a pattern may become: (a{100}){9} is short to write and long to run
	maxInstructions = 5_000
	// bytes of a schema's patterns as RE2 has them: \p{Alphabetic} is short to write and long to compile
	maxExpressions = 256 << 10
)

// pattern is a regular expression as the schema has it and as RE2 understands it.
type pattern struct {
	Source string `json:"source"`
	Expr   string `json:"expr"`
	Size   int    `json:"size"` // instructions
	re     *regexp.Regexp
}

func (p *pattern) prepare() (err error) {
	p.re, err = regexp.Compile(p.Expr)
	return err
}

// matches pays for the match before it begins: RE2 is linear, but in the product of both sizes.
func (p *pattern) matches(c *check, s string) bool {
	c.spend(len(s) * p.Size / matchPerStep)
	return c.over() || p.re.MatchString(s)
}

// instructions returns the size of the program that a regular expression becomes.
func instructions(expr string) (int, error) {
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return 0, err
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return 0, err
	}
	return len(prog.Inst), nil
}

// usable translates a schema's pattern (ECMA 262, as in draft-07) for Go's RE2. The error says what is wrong with it,
// in words that follow the pattern.
func usable(source string) (pattern, error) {
	if n := utf8.RuneCountInString(source); n > maxPatternChars {
		return pattern{}, fmt.Errorf("is too long for a pattern: %d characters, at most %d are allowed", n,
			maxPatternChars)
	}
	expr, lacks, err := translate(source)
	switch {
	case err != nil:
		return pattern{}, fmt.Errorf("is not a valid regular expression: %w", err)
	case lacks != "":
		return pattern{}, fmt.Errorf("uses %s, which patterns cannot do here: they are matched in linear time, by RE2",
			lacks)
	}
	size, err := instructions(expr)
	if err != nil || size > maxInstructions { // what we wrote parses, unless RE2 finds it too large
		return pattern{}, errors.New("is too large for a pattern once its repetitions are written out")
	}
	return pattern{Source: source, Expr: expr, Size: size}, nil
}
