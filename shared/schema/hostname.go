package schema

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxHostname = 253
	maxLabel    = 63
)

// isHostname: RFC 1123; a label that begins with xn-- must be one of RFC 5890's A-labels.
func isHostname(s string) bool {
	if len(s) > maxHostname {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if !isLDH(label) || !fitsIDNA(label) {
			return false
		}
	}
	return true
}

// isLDH: letters, digits and, inside, hyphens.
func isLDH(label string) bool {
	if label == "" || len(label) > maxLabel || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	for i := range len(label) {
		if label[i] != '-' && !alphanumeric(label[i]) {
			return false
		}
	}
	return true
}

// fitsIDNA: no A-label at all, or a good one.
func fitsIDNA(label string) bool {
	if len(label) < 4 || !strings.EqualFold(label[:4], "xn--") {
		return true
	}
	_, ok := decoded(label)
	return ok
}

// decoded returns the U-label behind an A-label, if that is its one proper form.
func decoded(label string) ([]rune, bool) {
	label = strings.ToLower(label)
	u, ok := fromPunycode(label[4:])
	if !ok || !isULabel(u) {
		return nil, false
	}
	return u, toPunycode(u) == label[4:]
}

var separators = strings.NewReplacer("。", ".", "．", ".", "｡", ".")

// isIDNHostname: RFC 5890 to 5893, with what the standard library knows of Unicode. Two of their conditions need tables
// it does not have, and are approximated. Stability under NFKC is: by case and by the blocks of compatibility
// characters. So are the classes of bidirectional text and of joining: by script.
func isIDNHostname(s string) bool {
	if len(s) > maxHostname*utf8.UTFMax {
		return false
	}
	length, bidi := -1, false
	var labels [][]rune
	for label := range strings.SplitSeq(separators.Replace(s), ".") {
		u, size, ok := uLabel(label)
		if !ok {
			return false
		}
		length += size + 1
		bidi = bidi || slices.ContainsFunc(u, func(r rune) bool { return rightToLeft(r) || arabicDigit(r) })
		labels = append(labels, u)
	}
	return length <= maxHostname &&
		(!bidi || !slices.ContainsFunc(labels, func(l []rune) bool { return !isDirected(l) }))
}

// uLabel returns a label as people read it, and its length as hosts do.
func uLabel(label string) (u []rune, size int, ok bool) {
	if isASCII(label) {
		if !isLDH(label) {
			return nil, 0, false
		}
		if len(label) < 4 || label[2:4] != "--" {
			return []rune(label), len(label), true
		}
		if !strings.EqualFold(label[:4], "xn--") {
			return nil, 0, false
		}
		u, ok = decoded(label)
		return u, len(label), ok
	}
	u = []rune(label)
	if len(u) > maxLabel || !isULabel(u) {
		return nil, 0, false
	}
	size = len("xn--") + len(toPunycode(u))
	return u, size, size <= maxLabel
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func isULabel(u []rune) bool {
	n := len(u)
	if n == 0 || u[0] == '-' || u[n-1] == '-' || n >= 4 && u[2] == '-' && u[3] == '-' || unicode.IsMark(u[0]) {
		return false
	}
	foreign := false
	for i, r := range u {
		foreign = foreign || r >= utf8.RuneSelf
		if !permitted(r) && !inContext(u, i) {
			return false
		}
	}
	return foreign
}

var (
	alwaysPermitted = []rune{'-', 0xdf, 0x3c2, 0x6fd, 0x6fe, 0xf0b, 0x3007}
	neverPermitted  = []rune{0x640, 0x7fa, 0x302e, 0x302f, 0x3031, 0x3032, 0x3033, 0x3034, 0x3035, 0x303b}

	// compatibility holds letters that NFKC turns into others, by block.
	compatibility = &unicode.RangeTable{
		R16: []unicode.Range16{
			{0xaa, 0xaa, 1}, {0xb5, 0xb5, 1}, {0xba, 0xba, 1}, {0x132, 0x133, 1}, {0x13f, 0x140, 1}, {0x149, 0x149, 1},
			{0x17f, 0x17f, 1}, {0x1c4, 0x1cc, 1},
			{0x1f1, 0x1f3, 1}, {0x2b0, 0x2b8, 1}, {0x2e0, 0x2e4, 1}, {0x340, 0x341, 1}, {0x343, 0x345, 1},
			{0x34f, 0x34f, 1}, {0x3d0, 0x3d6, 1}, {0x3f0, 0x3f2, 1},
			{0x587, 0x587, 1}, {0x675, 0x678, 1}, {0x958, 0x95f, 1}, {0xe33, 0xe33, 1}, {0xeb3, 0xeb3, 1},
			{0xedc, 0xedd, 1}, {0x1100, 0x11ff, 1}, {0x1d2c, 0x1d6a, 1},
			{0x1d78, 0x1d78, 1}, {0x1d9b, 0x1dbf, 1}, {0x2071, 0x209c, 1}, {0x2100, 0x214d, 1}, {0x3131, 0x318e, 1},
			{0xa69c, 0xa69d, 1}, {0xa770, 0xa770, 1},
			{0xf900, 0xfa0d, 1}, {0xfa10, 0xfa10, 1}, {0xfa12, 0xfa12, 1}, {0xfa15, 0xfa1e, 1}, {0xfa20, 0xfa20, 1},
			{0xfa22, 0xfa22, 1}, {0xfa25, 0xfa26, 1},
			{0xfa2a, 0xfdff, 1}, {0xfe70, 0xffef, 1},
		},
		R32:         []unicode.Range32{{0x1d400, 0x1d7ff, 1}, {0x1ee00, 0x1eeff, 1}, {0x2f800, 0x2fa1d, 1}},
		LatinOffset: 3,
	}
)

// permitted: RFC 5892's PVALID.
func permitted(r rune) bool {
	switch {
	case slices.Contains(alwaysPermitted, r):
		return true
	case slices.Contains(neverPermitted, r), arabicDigit(r), persianDigit(r), unicode.ToLower(r) != r,
		unicode.Is(compatibility, r),
		unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r), unicode.Is(unicode.Variation_Selector, r):
		return false
	}
	return unicode.In(r, unicode.Ll, unicode.Lo, unicode.Lm, unicode.Nd, unicode.Mn, unicode.Mc)
}

func arabicDigit(r rune) bool  { return r >= 0x660 && r <= 0x669 }
func persianDigit(r rune) bool { return r >= 0x6f0 && r <= 0x6f9 }

// inContext: RFC 5892's CONTEXTJ and CONTEXTO, characters that are good only beside certain others.
func inContext(u []rune, i int) bool {
	var before, after rune
	if i > 0 {
		before = u[i-1]
	}
	if i+1 < len(u) {
		after = u[i+1]
	}
	switch r := u[i]; {
	case r == 0x200c: // zero width non-joiner
		return slices.Contains(viramas, before) || joined(u, i)
	case r == 0x200d: // zero width joiner
		return slices.Contains(viramas, before)
	case r == 0xb7: // middle dot
		return before == 'l' && after == 'l'
	case r == 0x375: // Greek keraia
		return unicode.Is(unicode.Greek, after)
	case r == 0x5f3 || r == 0x5f4: // Hebrew geresh, gershayim
		return unicode.Is(unicode.Hebrew, before)
	case r == 0x30fb: // Katakana middle dot
		return slices.ContainsFunc(u,
			func(r rune) bool { return unicode.In(r, unicode.Hiragana, unicode.Katakana, unicode.Han) })
	case arabicDigit(r):
		return !slices.ContainsFunc(u, persianDigit)
	case persianDigit(r):
		return !slices.ContainsFunc(u, arabicDigit)
	}
	return false
}

// viramas are the marks of canonical combining class 9.
var viramas = []rune{
	0x94d, 0x9cd, 0xa4d, 0xacd, 0xb4d, 0xbcd, 0xc4d, 0xccd, 0xd3b, 0xd3c, 0xd4d, 0xdca, 0xe3a, 0xeba, 0xf84, 0x1039,
	0x103a, 0x1714, 0x1715, 0x1734,
	0x17d2, 0x1a60, 0x1b44, 0x1baa, 0x1bab, 0x1bf2, 0x1bf3, 0x2d7f, 0xa806, 0xa82c, 0xa8c4, 0xa953, 0xa9c0, 0xaaf6,
	0xabed, 0x10a3f, 0x11046, 0x11070,
	0x1107f, 0x110b9, 0x11133, 0x11134, 0x111c0, 0x11235, 0x112ea, 0x1134d, 0x11442, 0x114c2, 0x115bf, 0x1163f, 0x116b6,
	0x1172b, 0x11839,
}

// rightJoining are Arabic letters that do not join the one after them.
var rightJoining = &unicode.RangeTable{R16: []unicode.Range16{
	{0x621, 0x625, 1}, {0x627, 0x627, 1}, {0x629, 0x629, 1}, {0x62f, 0x632, 1}, {0x648, 0x648, 1}, {0x671, 0x677, 1},
	{0x688, 0x699, 1}, {0x6c0, 0x6c0, 1},
	{0x6c3, 0x6cb, 1}, {0x6cd, 0x6cd, 1}, {0x6cf, 0x6cf, 1}, {0x6d2, 0x6d5, 1}, {0x6ee, 0x6ef, 1},
}}

// joined reports whether a non-joiner is where letters would join.
func joined(u []rune, i int) bool {
	before := i - 1
	for before >= 0 && unicode.Is(unicode.Mn, u[before]) {
		before--
	}
	after := i + 1
	for after < len(u) && unicode.Is(unicode.Mn, u[after]) {
		after++
	}
	return before >= 0 && after < len(u) && joins(u[before]) && !unicode.Is(rightJoining, u[before]) &&
		joins(u[after]) && u[after] != 0x621 && u[after] != 0x674
}

func joins(r rune) bool {
	return unicode.IsLetter(r) && unicode.In(r, unicode.Arabic, unicode.Syriac, unicode.Nko, unicode.Mandaic,
		unicode.Mongolian, unicode.Phags_Pa, unicode.Adlam)
}

func rightToLeft(r rune) bool {
	return !unicode.IsMark(r) && !arabicDigit(r) && !persianDigit(r) &&
		unicode.In(r, unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana, unicode.Nko, unicode.Samaritan,
			unicode.Mandaic, unicode.Adlam)
}

// isDirected: RFC 5893's rule for the labels of a name in which something runs from right to left.
func isDirected(u []rune) bool {
	last := len(u) - 1
	for last > 0 && unicode.IsMark(u[last]) {
		last--
	}
	european := func(r rune) bool { return r >= '0' && r <= '9' || persianDigit(r) }
	leftToRight := func(r rune) bool {
		return !rightToLeft(r) && !european(r) && !arabicDigit(r) && (unicode.IsLetter(r) || unicode.IsDigit(r))
	}
	has := func(f func(rune) bool) bool { return slices.ContainsFunc(u, f) }
	switch {
	case rightToLeft(u[0]):
		return !has(leftToRight) && !(has(european) && has(arabicDigit)) &&
			(rightToLeft(u[last]) || european(u[last]) || arabicDigit(u[last]))
	case leftToRight(u[0]):
		return !has(rightToLeft) && !has(arabicDigit) && (leftToRight(u[last]) || european(u[last]))
	}
	return false
}
