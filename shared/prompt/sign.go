package prompt

import (
	"html"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// sign reads the first character of a non-empty text, and its width in bytes: a plain character, or one written
// as an entity (&lt; &#60 &amp;lt;), as an escape (\u003c \x3c) or as in a URL (%3c).
func sign(text string) (m mark, width int) {
	switch text[0] {
	case '&':
		return entity(text)
	case '\\':
		return escape(text)
	case '%':
		i := 1
		for strings.HasPrefix(text[i:], "25") { // written so more than once
			i += 2
		}
		if v, ok := hex(text, i, 2); ok && v < 0x80 {
			return show(v), i + 2
		}
		return show('%'), 1
	}
	r, width := utf8.DecodeRuneInString(text)
	return show(r), width
}

// entity reads a sign that begins with &.
func entity(text string) (mark, int) {
	i := 1
	for { // written so more than once
		n := 0
		for _, amp := range []string{"amp;", "#38;", "#x26;"} {
			if len(text) >= i+len(amp) && strings.EqualFold(text[i:i+len(amp)], amp) {
				n = len(amp)
			}
		}
		if n == 0 {
			break
		}
		i += n
	}
	rest := text[i:]
	if strings.HasPrefix(rest, "#") {
		if r, width := number(rest[1:]); width > 0 {
			return show(r), i + 1 + width
		}
		return mark{}, 1
	}
	run := 0
	for run < len(rest) && run < 32 && (asciiFold(rune(rest[run])) != 0) {
		run++
	}
	if run >= 2 {
		switch strings.ToLower(rest[:2]) { // in any case and with anything after it
		case "lt":
			return mark{kind: opener}, i + 2 + semicolon(rest[2:])
		case "gt":
			return mark{kind: closer}, i + 2 + semicolon(rest[2:])
		}
	}
	run += semicolon(rest[run:])
	plain := html.UnescapeString("&" + rest[:run])
	if strings.HasPrefix(plain, "&") {
		return mark{}, 1
	}
	r, size := utf8.DecodeRuneInString(plain)
	return show(r), i + run - min(run-1, len(plain)-size)
}

func semicolon(text string) int {
	if strings.HasPrefix(text, ";") {
		return 1
	}
	return 0
}

// number reads the rest of a numeric entity after its #.
func number(text string) (r rune, width int) {
	i, base, digits := 0, 10, "0123456789"
	if len(text) > 0 && text[0]|0x20 == 'x' {
		i, base, digits = 1, 16, "0123456789abcdefABCDEF"
	}
	from := i
	for i < len(text) && strings.IndexByte(digits, text[i]) >= 0 {
		i++
	}
	run := strings.TrimLeft(text[from:i], "0")
	if i == from {
		return 0, 0
	}
	if base == 16 && len(run) > 2 && semicolon(text[i:]) == 0 { // letters that follow may be those of the name
		if first := strings.ToLower(run[:2]); first == "3c" || first == "3e" || first == "2f" {
			i, run = i-len(run)+2, first
		}
	}
	v, err := strconv.ParseUint(run, base, 32)
	if err != nil || v > utf8.MaxRune {
		v = utf8.RuneError
	}
	return rune(v), i + semicolon(text[i:])
}

// escape reads a sign that begins with backslashes, however many: how often it was escaped does not count.
func escape(text string) (mark, int) {
	i := len(text) - len(strings.TrimLeft(text, `\`))
	if i == len(text) {
		return mark{kind: slash}, i
	}
	switch c := text[i]; c {
	case 'u', 'U':
		if strings.HasPrefix(text[i+1:], "{") {
			if end := strings.IndexByte(text[i:min(len(text), i+12)], '}'); end > 0 {
				if v, err := strconv.ParseUint(text[i+2:i+end], 16, 32); err == nil && v <= utf8.MaxRune {
					return show(rune(v)), i + end + 1
				}
			}
			break
		}
		v, ok := hex(text, i+1, 4)
		if !ok {
			break
		}
		if low := i + 5; utf16.IsSurrogate(v) {
			for low < len(text) && text[low] == '\\' && low < i+5+i {
				low++
			}
			if second, ok := hex(text, low+1, 4); ok && text[low] == 'u' {
				if r := utf16.DecodeRune(v, second); r != utf8.RuneError {
					return show(r), low + 5
				}
			}
		}
		return show(v), i + 5
	case 'x', 'X':
		if v, ok := hex(text, i+1, 2); ok {
			return show(v), i + 3
		}
	case 'n', 'r', 't', 'f', 'v', 'b': // an escaped gap, or a backslash before a letter
		return mark{kind: perhaps, letter: c}, i + 1
	}
	return mark{kind: slash}, i
}

// hex reads so many hexadecimal digits at i.
func hex(text string, i, digits int) (rune, bool) {
	if len(text) < i+digits {
		return 0, false
	}
	v, err := strconv.ParseUint(text[i:i+digits], 16, 32)
	return rune(v), err == nil
}

// lookAlikes are letters of other alphabets and forms, each after the ASCII letter it looks like.
var lookAlikes = func() map[rune]byte {
	m := map[rune]byte{}
	for _, word := range strings.Fields("aаΑАαɑᴀªₐᵃ bВΒЬʙᵇ cсСϲᴄℂℭᶜ dԁⅾᴅᵈⅆ eеЕΕєℯℰᴇₑᵉⅇ fϝꜰℱᶠ gɡℊɢᵍ hһНΗℎℋℌℍʜₕʰ " +
		"iіІΙιıℐℑɪᵢⁱⅰⅈ jјЈϳᴊⱼʲⅉ kкКΚκKᴋₖᵏ lӏⅼℓℒʟₗˡ " +
		"mМΜⅿℳᴍₘᵐ nпΝηℕɴₙⁿ oоОοΟσᴏℴₒᵒ pрРρΡℙᴘₚᵖ qԛԚℚ rгℛℜℝʀᵣʳ sѕЅꜱſₛˢ tтТΤτᴛₜᵗ uυսᴜᵤᵘ vνѵⅴᴠᵥᵛ wԝԜωᴡʷ xхХΧχⅹₓˣ " +
		"yуУΥγʏʸ zΖℤℨᴢᶻ") {
		for _, r := range word[1:] {
			m[r] = word[0]
		}
	}
	return m
}()

// asciiFold is the lower-case ASCII letter or the digit that r looks like; 0: none.
func asciiFold(r rune) byte {
	switch {
	case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
		return byte(r)
	case r >= 'A' && r <= 'Z':
		return byte(r) + 0x20
	case r < 0x80:
		return 0
	case r >= '！' && r <= '～': // full-width
		return asciiFold(r - 0xFEE0)
	case r >= 0x1D400 && r < 0x1D6A4: // mathematical alphabets: bold, italic, script …
		return 'a' + byte((r-0x1D400)%26)
	case r >= 0x1D7CE && r <= 0x1D7FF: // their digits
		return '0' + byte((r-0x1D7CE)%10)
	case r >= 'Ⓐ' && r <= 'ⓩ': // in circles
		return 'a' + byte((r-'Ⓐ')%26)
	case r >= 0x1F130 && r < 0x1F14A, r >= 0x1F150 && r < 0x1F16A, r >= 0x1F170 && r < 0x1F18A:
		// in squares and filled ones
		return 'a' + byte((r-0x1F130)%32)
	}
	return lookAlikes[r]
}
