package prompt

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// neutralize rewrites everything in a text that could be taken for an opening or closing tag, however leniently
// it is read: in any case, with spaces, invisible characters, dashes or slashes anywhere, with entities,
// escapes, full-width forms and look-alikes. It writes it in square brackets: [/tag]. Other text stays as it
// is, and so does text that was neutralized before. The tag is ASCII with at most 63 letters and digits; its
// other characters are ignored. The time is proportional to the text's length.
func neutralize(text, tag string) string {
	n := neutral{text: text, tag: tag}
	for i := range len(tag) {
		if c := asciiFold(rune(tag[i])); c != 0 && n.size < 63 {
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

// neutral scans a text once. How far a tag has been read is a set of positions in its name, one bit each, since
// some characters may be a letter of it or nothing.
type neutral struct {
	text, tag string
	places    [128]uint64 // by letter: its positions in the name
	size      int         // number of letters in the name

	at     where
	reach  uint64 // positions in the name that may have been reached
	begin  int    // offset of the opening bracket
	end    int    // offset after the name's last letter
	slash  bool   // it is a closing tag
	spaced bool   // an opening one with a space before its name, which may also mean "less than"

	out  strings.Builder
	kept int // how much of text is written
}

// where is the state of the scan.
type where uint8

const (
	outside where = iota
	inside        // a bracket was opened, and then came nothing but the beginning of the name
	named         // the whole name came, but it might be a comparison with something of that name
	done          // it is a tag and written so; its closing bracket may follow
)

// read reads one character, at text[i:j].
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

// mark rewrites the tag that was read.
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

// next is the next offset from i at which a tag could start.
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

// kind is what a character may mean in a tag.
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

// mark is one character as a lenient reader sees it.
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

// signs are the look-alikes, with what they look like.
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

// ascii is the table for ASCII characters, which are frequent.
var ascii = func() (t [utf8.RuneSelf]mark) {
	for i := range t {
		t[i] = drawn(rune(i))
	}
	return t
}()

// isTag reports tag characters: ASCII that is invisible, but that models read.
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
	if c := asciiFold(r); c != 0 {
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
