package schema

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// isURI: RFC 3986 (RFC 3987 if international), with a scheme.
func isURI(s string, international bool) bool {
	scheme, _, ok := strings.Cut(s, ":")
	return ok && isScheme(scheme) && isReference(s, international)
}

// isReference: the same, or relative.
func isReference(s string, international bool) bool {
	rest, fragment, _ := strings.Cut(s, "#")
	rest, query, _ := strings.Cut(rest, "?")
	if !consists(fragment, "/?:@", international) || !consistsPrivately(query, "/?:@", international) {
		return false
	}
	scheme, after, absolute := strings.Cut(rest, ":")
	absolute = absolute && isScheme(scheme)
	if absolute {
		rest = after
	}
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		authority, path := after, ""
		if i := strings.IndexByte(after, '/'); i >= 0 {
			authority, path = after[:i], after[i:]
		}
		return isAuthority(authority, international) && consists(path, "/:@", international)
	}
	first, _, _ := strings.Cut(rest, "/")
	if !absolute && strings.Contains(first, ":") {
		return false // it would be read as a scheme
	}
	return consists(rest, "/:@", international)
}

func isScheme(s string) bool {
	if s == "" || !letter(s[0]) {
		return false
	}
	for i := range len(s) {
		if !alphanumeric(s[i]) && strings.IndexByte("+-.", s[i]) < 0 {
			return false
		}
	}
	return true
}

var future = regexp.MustCompile(`^[vV][0-9A-Fa-f]+\.[A-Za-z0-9._~!$&'()*+,;=:-]+$`)

func isAuthority(s string, international bool) bool {
	if i := strings.IndexByte(s, '@'); i >= 0 {
		if !consists(s[:i], ":", international) {
			return false
		}
		s = s[i+1:]
	}
	host, port := s, ""
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return false
		}
		if literal := s[1:end]; !isIPv6(literal) && !future.MatchString(literal) {
			return false
		}
		host, port = "", s[end+1:]
		if port != "" && port[0] != ':' {
			return false
		}
		port = strings.TrimPrefix(port, ":")
	} else if i := strings.LastIndexByte(s, ':'); i >= 0 {
		host, port = s[:i], s[i+1:]
	}
	return strings.Trim(port, "0123456789") == "" && consists(host, "", international)
}

// consists reports whether a part has only unreserved characters, sub-delimiters, those in also, and proper
// percent-encodings.
func consists(s, also string, international bool) bool { return made(s, also, international, false) }

// consistsPrivately allows characters of private use as well; a query may have them.
func consistsPrivately(s, also string, international bool) bool {
	return made(s, also, international, true)
}

func made(s, also string, international, private bool) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(s[i:])
			if !international || !ucschar(r) && !(private && iprivate(r)) {
				return false
			}
			i += n - 1
		case c == '%':
			if i+2 >= len(s) || !hexadecimal(s[i+1]) || !hexadecimal(s[i+2]) {
				return false
			}
			i += 2
		case !alphanumeric(c) && strings.IndexByte("-._~!$&'()*+,;=", c) < 0 && strings.IndexByte(also, c) < 0:
			return false
		}
	}
	return true
}

// ucschar and iprivate are RFC 3987's.
func ucschar(r rune) bool {
	switch {
	case r < 0x10000:
		return r >= 0xa0 && r < 0xe000 || r >= 0xf900 && r < 0xfdd0 || r >= 0xfdf0 && r < 0xfff0
	case r >= 0xe0000:
		return r >= 0xe1000 && r < 0xefffe
	}
	return r&0xffff < 0xfffe
}

func iprivate(r rune) bool {
	return r >= 0xe000 && r < 0xf900 || r >= 0xf0000 && r < 0xffffe || r >= 0x100000 && r < 0x10fffe
}

var expression = regexp.MustCompile(`^[+#./;?&=,!@|]?` + varspec + `(?:,` + varspec + `)*$`)

const (
	varchar = `(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})`
	varspec = varchar + `+(?:\.` + varchar + `+)*(?:\*|:[1-9][0-9]{0,3})?`
)

// isTemplate: RFC 6570.
func isTemplate(s string) bool {
	for s != "" {
		i := strings.IndexAny(s, "{}")
		if i < 0 {
			return isTemplateLiteral(s)
		}
		end := strings.IndexByte(s, '}')
		if s[i] == '}' || end < 0 || !isTemplateLiteral(s[:i]) || !expression.MatchString(s[i+1:end]) {
			return false
		}
		s = s[end+1:]
	}
	return true
}

func isTemplateLiteral(s string) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(s[i:])
			if !ucschar(r) && !iprivate(r) {
				return false
			}
			i += n - 1
		case c == '%':
			if i+2 >= len(s) || !hexadecimal(s[i+1]) || !hexadecimal(s[i+2]) {
				return false
			}
			i += 2
		case c <= ' ' || c == 0x7f || strings.IndexByte("\"<>\\^`{|}", c) >= 0:
			return false
		}
	}
	return true
}
