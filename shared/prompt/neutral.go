package prompt

import (
	"bytes"
	"html"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// block is a tagged block whose content must not be able to end it.
type block struct {
	tag     string
	pattern *regexp.Regexp // one of its tags, in the characters of simplify
}

// newBlock takes a tag of ASCII letters and dashes.
func newBlock(tag string) block {
	letters := strings.Split(strings.ReplaceAll(tag, "-", ""), "")
	for i, c := range letters {
		letters[i] = "[" + c + strings.ToUpper(c) + "]"
	}
	name := strings.Join(letters, `[< /A-Z-]*`)
	return block{tag, regexp.MustCompile(`<([ /A-Z-]*)` + name + `([ /]*)([>a-z0-9]?)`)}
}

// neutralize writes everything that could be read as a tag of the block in square brackets: [/tag]. It reads
// leniently: in any case, with spaces, invisible characters, dashes or slashes anywhere, with entities, escapes,
// full-width forms and look-alikes. Other text stays as it is, and so does neutralized text. The time is
// proportional to the text's length.
func (b block) neutralize(text string) string {
	plain, at := simplify(text)
	var out strings.Builder
	kept := 0 // how much of text is written
	for _, m := range b.pattern.FindAllSubmatchIndex(plain, -1) {
		closing := bytes.ContainsRune(plain[m[0]:m[4]], '/')
		spaced := bytes.ContainsRune(plain[m[2]:m[3]], ' ')
		next := plain[m[6]:m[7]]
		if !closing && spaced && len(next) == 0 && !bytes.ContainsRune(plain[m[4]:m[5]], '/') {
			continue // "less than"
		}
		out.WriteString(text[kept:at[m[0]].begin] + "[")
		if closing {
			out.WriteString("/")
		}
		out.WriteString(b.tag)
		kept = at[m[4]-1].end
		if string(next) == ">" {
			out.WriteString(text[kept:at[m[6]].begin] + "]")
			kept = at[m[6]].end
		}
	}
	return out.String() + text[kept:]
}

type span struct{ begin, end int }

// simplify reduces a text to what matters in a tag, with the place of each byte. That is < > / and -, a small letter or
// digit, and a space for any gap. A capital is what may be a letter or nothing, and a dot is everything else. It drops
// what is not seen, and what follows a dot up to the next <.
func simplify(text string) (plain []byte, at []span) {
	outside := true
	for i := 0; i < len(text); {
		if outside {
			i = nextMark(text, i)
			if i == len(text) {
				break
			}
		}
		s, width, perhaps := decode(text[i:])
		for _, r := range s {
			for _, r := range decomposed(r) {
				c := class(r)
				if perhaps {
					c = byte(unicode.ToUpper(r))
				}
				if c == 0 || outside && c != '<' {
					continue
				}
				outside = c == '.'
				plain, at = append(plain, c), append(at, span{i, i + width})
			}
		}
		i += width
	}
	return plain, at
}

// nextMark returns the next offset from i at which a tag could start.
func nextMark(text string, i int) int {
	for i < len(text) && text[i] < utf8.RuneSelf && strings.IndexByte(`<&\%`, text[i]) < 0 {
		i++
	}
	return i
}

// decomposed is r without ligatures, accents, widths and fonts.
func decomposed(r rune) string {
	s := string(r)
	if r < utf8.RuneSelf {
		return s
	}
	if d := norm.NFKD.PropertiesString(s).Decomposition(); d != nil {
		return string(d)
	}
	return s
}

// encoded matches an encoded character: an entity (&lt; &#60), as in a URL (%3c), or an escape (\u003c \x3c). It may
// have been encoded more than once (&amp;lt;).
var encoded = regexp.MustCompile(`(?i)^(?:` +
	`&(?:amp;|#38;|#x26;)*(?:#x0*(3[ce]|2f);?|#x([0-9a-f]+);?|#([0-9]+);?|(lt|gt);?|([a-z0-9]{2,32};?))?|` +
	`%(?:25)*([0-7][0-9a-f])?|` +
	`\\+(?:u(d[89ab][0-9a-f]{2})\\+u(d[c-f][0-9a-f]{2})|u([0-9a-f]{4})|u\{([0-9a-f]+)\}|x([0-9a-f]{2})|([nrtfvb]))?)`)

// maxEncoded is the longest encoded character that is found, in bytes.
const maxEncoded = 64

// decode returns the first character of a text, or several, and its width. perhaps: it is a letter or a gap.
func decode(text string) (s string, width int, perhaps bool) {
	if c := text[0]; c != '&' && c != '%' && c != '\\' || c == '&' && len(text) > 1 && text[1] == '&' {
		_, width = utf8.DecodeRuneInString(text)
		return text[:width], width, false
	}
	m := encoded.FindStringSubmatch(text[:min(len(text), maxEncoded)])
	width = len(m[0])
	number := func(digits string, base int) rune {
		v, err := strconv.ParseInt(digits, base, 32)
		if err != nil {
			return utf8.RuneError
		}
		return rune(v)
	}
	hex := m[1] + m[2] + m[6] + m[9] + m[10] + m[11] // one of them at most
	switch {
	case hex != "":
		return string(number(hex, 16)), width, false
	case m[3] != "":
		return string(number(m[3], 10)), width, false
	case m[4] != "":
		return html.UnescapeString("&" + strings.ToLower(m[4]) + ";"), width, false
	case m[5] != "":
		s = html.UnescapeString("&" + m[5])
		_, size := utf8.DecodeRuneInString(s)
		return s[:size], width - min(len(m[5])-1, len(s)-size), false
	case m[7] != "":
		return string(utf16.DecodeRune(number(m[7], 16), number(m[8], 16))), width, false
	case m[12] != "":
		return m[12], width, true
	}
	return text[:1], width, false
}

// class returns the byte for a character, 0 for one that is not seen.
func class(r rune) byte {
	switch {
	case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
		return byte(r)
	case r >= 'A' && r <= 'Z':
		return byte(r) + 'a' - 'A'
	case r >= 0xE0020 && r < 0xE007F: // invisible ASCII that models read
		switch c := class(r - 0xE0000); {
		case c >= 'a' && c <= 'z':
			return c + 'A' - 'a'
		case c == '<', c == '/':
			return c
		}
		return 0
	case r >= 0x1F150 && r < 0x1F16A, r >= 0x1F170 && r < 0x1F18A: // letters in filled circles and squares
		return 'a' + byte((r-0x1F130)%32)
	}
	if c, ok := lookAlikes[r]; ok {
		return c
	}
	switch {
	case unicode.In(r, unicode.White_Space, unicode.Z):
		return ' '
	case unicode.Is(unicode.Pd, r):
		return '-'
	case unicode.In(r, unicode.C, unicode.M) || strings.ContainsRune(blanks, r):
		return 0
	}
	return '.'
}

// blanks are letters and signs that show nothing.
const blanks = "\u115f\u1160\u2800\ufffd"

// lookAlikes are characters that NFKD leaves alone, with the ASCII character that they look like.
var lookAlikes = func() map[rune]byte {
	m := map[rune]byte{}
	for _, word := range strings.Fields(`<‹«〈⟨《⟪❬❮❰˂˱ᐸᚲ≪⋘⪡⋖≺⧼⦑⊰𝈶〔 >›»〉⟩》⟫❭❯❱˃˲ᐳ≫⋙⪢⋗≻⧽⦒⊱𝈷 ` +
		`//∕⁄⧸⟋╱〳⫽\⧵∖⟍╲⧹ -_−‿⁃˗➖ aаΑАαɑᴀ bВΒЬʙ cсСςᴄ dԁᴅ eеЕΕєᴇ fϝꜰ gɡɢ hһНΗʜ iіІΙιıɪ jјЈϳᴊ kкКΚκᴋ ` +
		`lӏʟ mМΜᴍ nпΝηɴ oоОοΟσᴏ pрРρΡᴘ qԛԚ rгʀ sѕЅꜱ tтТΤτᴛ uυսᴜ vνѵᴠ wԝԜωᴡ xхХΧχ yуУΥγʏ zΖᴢ`) {
		for _, r := range word {
			m[r] = word[0]
		}
	}
	return m
}()
