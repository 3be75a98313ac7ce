package prompt

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// neutralize gives text in which nothing can be taken for an opening or closing tag of the name tag, however leniently
// it is read: in any case, with spaces, invisible characters, dashes or slashes anywhere in it, with entities and
// escapes for its characters, in full-width forms and with look-alikes. Where something of the kind begins, it is
// written plainly in square brackets: [/tag]. Text without it comes back as it is, and so does text that went through
// before. The tag is ASCII, at most 63 letters and digits; its other characters do not count. The time is proportional
// to the text's length.
func neutralize(text, tag string) string {
	n := neutral{text: text, tag: tag}
	for i := range len(tag) {
		if c := fold(rune(tag[i])); c != 0 && n.size < 63 {
			n.places[c] |= 1 << n.size
			n.size++
		}
	}
	if n.size == 0 {
		return text
	}
	for i := 0; i < len(text); {
		if n.at == outside {
			i = next(text, i)
			if i == len(text) {
				break
			}
		}
		s, width := sign(text[i:])
		n.read(s, i, i+width)
		i += width
	}
	if n.kept == 0 {
		return text
	}
	n.out.WriteString(text[n.kept:])
	return n.out.String()
}

// neutral goes once over a text. How far a tag has been read is a set of places in its name, one bit each, because some
// signs may be a letter of it or nothing.
type neutral struct {
	text, tag string
	places    [128]uint64 // by letter: where in the name it stands
	size      int         // letters of the name

	at     where
	reach  uint64 // places in the name that may have been reached
	begin  int    // where the opening bracket stands
	end    int    // after the name's last letter
	slash  bool   // it closes
	spaced bool   // an opening one with a space before its name: also how people write "less than"

	out  strings.Builder
	kept int // how much of text is written
}

// where a reader stands.
type where uint8

const (
	outside where = iota
	inside        // a bracket was opened, and then came nothing but the beginning of the name
	named         // the whole name came, but it might be a comparison with something of that name
	done          // it is a tag and written so; its closing bracket may follow
)

// read takes one sign, which stands at text[i:j].
func (n *neutral) read(s mark, i, j int) {
	if s.kind == opener && (!s.hidden || n.at != inside) {
		n.at, n.reach, n.begin, n.slash, n.spaced = inside, 1, i, false, false
		return
	}
	switch n.at {
	case inside:
		n.name(s, j)
	case named:
		switch s.kind {
		case closer, letter, slash:
			n.mark()
			n.after(s, i, j)
		case space, nothing:
		default:
			n.at = outside
		}
	case done:
		n.after(s, i, j)
	}
}

// name goes on with a name that ends, with this sign, at j.
func (n *neutral) name(s mark, j int) {
	switch s.kind {
	case opener: // a hidden one: the name may begin here too
		n.reach |= 1
	case slash:
		n.slash = true
	case space:
		n.spaced = n.spaced || n.reach == 1
	case nothing, dash:
	case letter, perhaps:
		to := n.reach & n.places[s.letter] << 1
		if s.kind == perhaps {
			to |= n.reach
		}
		n.reach, n.end = to, j
		switch {
		case to == 0:
			n.at = outside
		case to>>n.size == 0:
		case n.spaced && !n.slash:
			n.at = named
		default:
			n.mark()
		}
	default:
		n.at = outside
	}
}

// mark writes the tag that was read so that it is none.
func (n *neutral) mark() {
	n.out.WriteString(n.text[n.kept:n.begin])
	n.out.WriteByte('[')
	if n.slash {
		n.out.WriteByte('/')
	}
	n.out.WriteString(n.tag)
	n.at, n.kept = done, n.end
}

// after looks for the closing bracket.
func (n *neutral) after(s mark, i, j int) {
	switch s.kind {
	case closer:
		n.out.WriteString(n.text[n.kept:i])
		n.out.WriteByte(']')
		n.at, n.kept = outside, j
	case space, nothing, slash:
	default:
		n.at = outside
	}
}

// next is the place from i on where a tag could begin.
func next(text string, i int) int {
	for i < len(text) {
		c := text[i]
		if c < utf8.RuneSelf {
			if c == '<' || c == '&' || c == '\\' || c == '%' {
				break
			}
			i++
			continue
		}
		r, width := utf8.DecodeRuneInString(text[i:])
		if signs[r] == opener || isTag(r) {
			break
		}
		i += width
	}
	return i
}

// kind is what a sign may be to somebody who looks for a tag.
type kind uint8

const (
	other   kind = iota // ends a tag's name
	opener              // <
	closer              // >
	slash               // / and what escapes it
	space               // seen as a gap
	dash                // joins words
	nothing             // not seen
	letter              // a letter or digit
	perhaps             // a letter, or not seen
)

// mark is one sign as a lenient reader sees it.
type mark struct {
	kind   kind
	letter byte // small ASCII
	hidden bool // a sign that most readers do not see
}

const (
	openers = "<＜﹤‹«〈〈⟨《⟪❬❮❰˂˱ᐸᚲ≪⋘⪡⋖≺⧼⦑⊰𝈶﹝︿︽‹"
	closers = ">＞﹥›»〉〉⟩》⟫❭❯❱˃˲ᐳ≫⋙⪢⋗≻⧽⦒⊱𝈷︾﹀›"
	slashes = "/∕⁄／⧸⟋╱〳⫽\\＼⧵﹨∖⟍╲⧹"
	dashes  = "_-−＿﹍﹎﹏‿⁃˗➖"
	fillers = "\u115f\u1160\u3164\uffa0\u2800\ufffd" // letters and signs that show nothing
)

// signs are the look-alikes, with what they are seen as.
var signs = func() map[rune]kind {
	m := map[rune]kind{}
	for k, all := range map[kind]string{opener: openers, closer: closers, slash: slashes, dash: dashes,
		nothing: fillers} {
		for _, r := range all {
			m[r] = k
		}
	}
	return m
}()

// ascii is what the ASCII characters are: a table, as there are many of them.
var ascii = func() (t [utf8.RuneSelf]mark) {
	for i := range t {
		t[i] = drawn(rune(i))
	}
	return t
}()

// isTag tells the tag characters: ASCII that is not drawn, but models read it.
func isTag(r rune) bool { return r >= 0xE0020 && r < 0xE007F }

// show is what a character is to the reader.
func show(r rune) mark {
	switch {
	case r < utf8.RuneSelf:
		return ascii[r]
	case !isTag(r):
		return drawn(r)
	}
	m := ascii[r-0xE0000]
	switch m.hidden = true; m.kind {
	case letter:
		m.kind = perhaps
	case opener, slash:
	default:
		m.kind = nothing
	}
	return m
}

func drawn(r rune) mark {
	if c := fold(r); c != 0 {
		return mark{kind: letter, letter: c}
	}
	if k, ok := signs[r]; ok {
		return mark{kind: k}
	}
	switch {
	case unicode.In(r, unicode.White_Space, unicode.Z):
		return mark{kind: space}
	case unicode.Is(unicode.Pd, r):
		return mark{kind: dash}
	case unicode.In(r, unicode.C, unicode.M):
		return mark{kind: nothing}
	}
	return mark{}
}
