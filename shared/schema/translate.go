package schema

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// translate reads an ECMA 262 regular expression with Unicode semantics, lenient where browsers are (a lone { or ],
// escaped punctuation). lacks names the first construct that is valid but beyond RE2. It keeps its own stack:
// strangers' parentheses can be deep.
func translate(source string) (expr string, lacks string, err error) {
	t := newTranslator(source)
	err = t.all()
	return t.out.String(), t.lacks, err
}

// isRegex: ECMA 262, whether or not a pattern may use it here.
func isRegex(s string) bool {
	t := newTranslator(s)
	t.only = true
	return t.all() == nil
}

func newTranslator(source string) *translator {
	return &translator{rest: source, names: map[string]bool{}, sets: map[string]string{}}
}

func (t *translator) all() (err error) {
	for t.rest != "" && err == nil {
		err = t.term()
	}
	switch {
	case err != nil:
	case len(t.open) > 0:
		err = errors.New("a ( is not closed")
	case t.highest > t.groups:
		err = fmt.Errorf(`\%d refers to no group`, t.highest)
	default:
		for _, name := range slices.Sorted(maps.Keys(t.referred)) {
			if !t.names[name] {
				err = fmt.Errorf(`\k<%s> refers to no group`, cut(name, 40))
			}
		}
	}
	return err
}

type translator struct {
	rest     string
	out      strings.Builder
	open     []bool // groups not closed yet; true: may be repeated
	atom     bool   // something stands before that can be repeated
	groups   int    // that capture
	highest  int    // \1, \2, …
	names    map[string]bool
	referred map[string]bool
	sets     map[string]string // of \p, as RE2 writes them
	lacks    string
	only     bool // only whether it is valid: nothing is written
}

func (t *translator) lack(what string) {
	if t.lacks == "" {
		t.lacks = what
	}
}

func (t *translator) next() rune {
	r, n := utf8.DecodeRuneInString(t.rest)
	t.rest = t.rest[n:]
	return r
}

// skip takes a prefix off what is left, if it is there.
func (t *translator) skip(prefix string) bool {
	rest, ok := strings.CutPrefix(t.rest, prefix)
	t.rest = rest
	return ok
}

func (t *translator) write(s string, atom bool) {
	t.atom = atom
	if !t.only {
		t.out.WriteString(s)
	}
}

const (
	notNewline = `[^\n\r\x{2028}\x{2029}]`
	nothing    = `[^\x{0}-\x{10ffff}]`
	anything   = `[\x{0}-\x{10ffff}]`
	spaces     = `\t\n\v\f\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`
	notSpaces  = `\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}` +
		`\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}`
)

func (t *translator) term() error {
	switch r := t.next(); r {
	case '^', '$':
		t.write(string(r), false)
	case '|':
		t.write("|", false)
	case '.':
		t.write(notNewline, true)
	case '(':
		return t.group()
	case ')':
		if len(t.open) == 0 {
			return errors.New("a ) was never opened")
		}
		t.write(")", t.open[len(t.open)-1])
		t.open = t.open[:len(t.open)-1]
	case '[':
		return t.class()
	case '\\':
		return t.escape()
	case '*', '+', '?':
		return t.repeat(string(r))
	case '{':
		if m := bounds.FindString(t.rest); m != "" {
			t.rest = t.rest[len(m):]
			return t.times(m)
		}
		t.write(`\{`, true)
	default:
		t.write(regexp.QuoteMeta(string(r)), true)
	}
	return nil
}

var bounds = regexp.MustCompile(`^[0-9]+(,[0-9]*)?\}`)

const maxRepeat = 1000 // RE2's

func (t *translator) times(m string) error {
	low, high, ranged := strings.Cut(strings.TrimSuffix(m, "}"), ",")
	least, most := number32(low), number32(high)
	if ranged && high != "" && most < least {
		return fmt.Errorf("{%s is out of order", m)
	}
	if least > maxRepeat || most > maxRepeat {
		t.lack(fmt.Sprintf("more than %d repetitions", maxRepeat))
		m = "0}"
	}
	return t.repeat("{" + m)
}

// number32 reads digits; what is too long for a number is simply large.
func number32(digits string) int64 {
	n, _ := strconv.ParseInt(digits, 10, 32)
	return n
}

func (t *translator) repeat(how string) error {
	if !t.atom {
		return fmt.Errorf("%s has nothing to repeat", how)
	}
	if t.skip("?") {
		how += "?"
	}
	t.write(how, false)
	return nil
}

var groupName = regexp.MustCompile(`^[\p{L}\p{Nl}$_][\p{L}\p{Nl}\p{Mn}\p{Mc}\p{Nd}\p{Pc}$_]*>`)

func (t *translator) group() error {
	repeatable := true
	switch {
	case !t.skip("?"):
		t.groups++
	case t.skip(":"):
	case t.skip("="), t.skip("!"):
		t.lack("a lookahead")
	case t.skip("<="), t.skip("<!"):
		t.lack("a lookbehind")
		repeatable = false
	case t.skip("<"):
		name := groupName.FindString(t.rest)
		if name == "" {
			return errors.New("a group's name is not valid")
		}
		t.rest = t.rest[len(name):]
		name = strings.TrimSuffix(name, ">")
		if t.names[name] {
			return fmt.Errorf("two groups are named %s", cut(name, 40))
		}
		t.names[name] = true
		t.groups++
	default:
		return errors.New("(? begins no known kind of group")
	}
	t.open = append(t.open, repeatable)
	t.write("(?:", false)
	return nil
}

// escape translates what follows a \ outside of a class.
func (t *translator) escape() error {
	if t.rest == "" {
		return errors.New(`it ends with \`)
	}
	switch c := t.rest[0]; {
	case c == 'b' || c == 'B':
		t.write(`\`+t.rest[:1], false)
		t.rest = t.rest[1:]
		return nil
	case c >= '1' && c <= '9':
		n := len(t.rest) - len(strings.TrimLeft(t.rest, "0123456789"))
		t.highest = max(t.highest, int(number32(t.rest[:n])))
		t.rest = t.rest[n:]
		return t.backreference()
	case c == 'k':
		name := ""
		t.rest = t.rest[1:]
		if t.skip("<") {
			name = groupName.FindString(t.rest)
		}
		if name == "" {
			return errors.New(`\k must be followed by <name>`)
		}
		t.rest = t.rest[len(name):]
		if t.referred == nil {
			t.referred = map[string]bool{}
		}
		t.referred[strings.TrimSuffix(name, ">")] = true
		return t.backreference()
	}
	r, set, err := t.character()
	switch {
	case err != nil:
		return err
	case set != "":
		t.write("["+set+"]", true)
	case surrogate(r):
		t.write(nothing, true) // half a character is in no text
	default:
		t.write(regexp.QuoteMeta(string(r)), true)
	}
	return nil
}

func (t *translator) backreference() error {
	t.lack("a backreference")
	t.atom = true
	return nil
}

func surrogate(r rune) bool { return r >= 0xd800 && r < 0xe000 }

// character translates an escape that stands for one character, or for a set of them (as the inside of a RE2 class).
func (t *translator) character() (r rune, set string, err error) {
	r, set, err = t.escaped()
	if t.only && set != "" {
		set = `\d` // one is as good as the other, and some are kilobytes long
	}
	return r, set, err
}

func (t *translator) escaped() (r rune, set string, err error) {
	switch c := t.next(); c {
	case 'd', 'D', 'w', 'W':
		return 0, `\` + string(c), nil
	case 's':
		return 0, spaces, nil
	case 'S':
		return 0, notSpaces, nil
	case 'p', 'P':
		set, err = t.property(c == 'P')
		return 0, set, err
	case 't', 'n', 'v', 'f', 'r':
		return map[rune]rune{'t': '\t', 'n': '\n', 'v': '\v', 'f': '\f', 'r': '\r'}[c], "", nil
	case '0':
		if t.rest != "" && t.rest[0] >= '0' && t.rest[0] <= '9' {
			return 0, "", errors.New(`\0 must not be followed by a digit`)
		}
		return 0, "", nil
	case 'c':
		if t.rest == "" || t.rest[0]|0x20 < 'a' || t.rest[0]|0x20 > 'z' {
			return 0, "", errors.New(`\c must be followed by a letter`)
		}
		return t.next() & 0x1f, "", nil
	case 'x':
		r, err = t.hex(2)
		return r, "", err
	case 'u':
		r, err = t.codePoint()
		return r, "", err
	default:
		if c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c) || c == utf8.RuneError {
			return 0, "", fmt.Errorf(`\%s is no known escape`, string(c))
		}
		return c, "", nil
	}
}

func (t *translator) hex(digits int) (rune, error) {
	if len(t.rest) < digits {
		return 0, fmt.Errorf("%d hexadecimal digits are missing", digits)
	}
	n, err := strconv.ParseUint(t.rest[:digits], 16, 32)
	if err != nil {
		return 0, fmt.Errorf("%d hexadecimal digits are missing", digits)
	}
	t.rest = t.rest[digits:]
	return rune(n), nil
}

// codePoint reads what follows \u: four digits, two surrogates of four, or a number in braces.
func (t *translator) codePoint() (rune, error) {
	if t.skip("{") {
		digits, _, closed := strings.Cut(t.rest, "}")
		n, err := strconv.ParseUint(digits, 16, 32)
		if !closed || err != nil || n > unicode.MaxRune {
			return 0, errors.New(`\u{…} must hold a code point`)
		}
		t.rest = t.rest[len(digits)+1:]
		return rune(n), nil
	}
	high, err := t.hex(4)
	if err != nil || high < 0xd800 || high >= 0xdc00 || !strings.HasPrefix(t.rest, `\u`) {
		return high, err
	}
	before := t.rest
	t.rest = t.rest[2:]
	if low, err := t.hex(4); err == nil && low >= 0xdc00 && low < 0xe000 {
		return 0x10000 + (high-0xd800)<<10 + (low - 0xdc00), nil
	}
	t.rest = before
	return high, nil
}

// class translates what follows a [.
func (t *translator) class() error {
	negated := t.skip("^")
	var set strings.Builder
	for !t.skip("]") {
		low, lows, err := t.member()
		if err != nil {
			return err
		}
		if len(t.rest) < 2 || t.rest[0] != '-' || t.rest[1] == ']' {
			set.WriteString(one(low, lows))
			continue
		}
		t.rest = t.rest[1:]
		high, highs, err := t.member()
		switch {
		case err != nil:
			return err
		case lows != "" || highs != "": // no range: the - is itself
			set.WriteString(one(low, lows) + `\-` + one(high, highs))
		case high < low:
			return errors.New("a range in [ ] is out of order")
		default:
			set.WriteString(one(low, "") + "-" + one(high, ""))
		}
	}
	switch {
	case set.Len() > 0 && negated:
		t.write("[^"+set.String()+"]", true)
	case set.Len() > 0:
		t.write("["+set.String()+"]", true)
	case negated:
		t.write(anything, true)
	default:
		t.write(nothing, true)
	}
	return nil
}

func one(r rune, set string) string {
	if set != "" {
		return set
	}
	return fmt.Sprintf(`\x{%x}`, r)
}

// member is one character or set in a class.
func (t *translator) member() (rune, string, error) {
	switch {
	case t.rest == "":
		return 0, "", errors.New("a [ is not closed")
	case !t.skip(`\`):
		return t.next(), "", nil
	case t.rest == "":
		return 0, "", errors.New(`it ends with \`)
	case t.skip("b"):
		return '\b', "", nil
	case t.skip("-"):
		return '-', "", nil
	}
	return t.character()
}
