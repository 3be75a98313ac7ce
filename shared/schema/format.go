package schema

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// format is one of draft-07's formats: its name in messages, and whether a string has it.
type format struct {
	noun  string
	valid func(s string) bool
}

// formats are those that are asserted: all of draft-07, and uuid of the next draft. A format that is not here is
// ignored.
var formats = map[string]format{
	"date":                  {"date", isDate},
	"time":                  {"time", isTime},
	"date-time":             {"date-time", isDateTime},
	"email":                 {"email address", func(s string) bool { return isEmail(s, false) }},
	"idn-email":             {"internationalized email address", func(s string) bool { return isEmail(s, true) }},
	"hostname":              {"hostname", isHostname},
	"idn-hostname":          {"internationalized hostname", isIDNHostname},
	"ipv4":                  {"IPv4 address", isIPv4},
	"ipv6":                  {"IPv6 address", isIPv6},
	"uri":                   {"URI", func(s string) bool { return isURI(s, false) }},
	"uri-reference":         {"URI reference", func(s string) bool { return isReference(s, false) }},
	"iri":                   {"IRI", func(s string) bool { return isURI(s, true) }},
	"iri-reference":         {"IRI reference", func(s string) bool { return isReference(s, true) }},
	"uri-template":          {"URI template", isTemplate},
	"json-pointer":          {"JSON pointer", isPointer},
	"relative-json-pointer": {"relative JSON pointer", isRelativePointer},
	"regex":                 {"regular expression", isRegex},
	"uuid":                  {"UUID", uuid.MatchString},
}

var uuid = regexp.MustCompile(`^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`)

// isDate: RFC 3339 full-date.
func isDate(s string) bool {
	_, err := time.Parse("2006-01-02", s)
	return err == nil && len(s) == len("2006-01-02")
}

var clock = regexp.MustCompile(`^([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]+)?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))$`)

// isTime: RFC 3339 full-time. A leap second is one only at 23:59 UTC.
func isTime(s string) bool {
	m := clock.FindStringSubmatch(s)
	if m == nil {
		return false
	}
	var n [7]int
	for i, digits := range m {
		n[i], _ = strconv.Atoi(digits)
	}
	hour, minute, second, offHour, offMinute := n[1], n[2], n[3], n[5], n[6]
	if hour > 23 || minute > 59 || second > 60 || offHour > 23 || offMinute > 59 {
		return false
	}
	if second < 60 {
		return true
	}
	offset := offHour*60 + offMinute
	if m[4] == "-" {
		offset = -offset
	}
	const day = 24 * 60
	return (hour*60+minute-offset+2*day)%day == day-1
}

func isDateTime(s string) bool {
	const date = len("2006-01-02")
	return len(s) > date && (s[date] == 'T' || s[date] == 't') && isDate(s[:date]) && isTime(s[date+1:])
}

func isIPv4(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Is4()
}

func isIPv6(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Is6() && a.Zone() == ""
}

// isEmail: RFC 5321 mailbox, with RFC 6531's letters if international.
func isEmail(s string, international bool) bool {
	at := strings.LastIndexByte(s, '@')
	if at < 1 || at > 64 || len(s) > 254 {
		return false
	}
	local, domain := s[:at], s[at+1:]
	return isLocalPart(local, international) && isMailDomain(domain, international)
}

func isLocalPart(s string, international bool) bool {
	if strings.HasPrefix(s, `"`) {
		return isQuotedPart(s, international)
	}
	for atom := range strings.SplitSeq(s, ".") {
		if atom == "" {
			return false
		}
		for _, r := range atom {
			if r >= utf8.RuneSelf && !international || r < utf8.RuneSelf && !alphanumeric(byte(r)) &&
				!strings.ContainsRune("!#$%&'*+-/=?^_`{|}~", r) {
				return false
			}
		}
	}
	return true
}

func isQuotedPart(s string, international bool) bool {
	inside, ok := strings.CutSuffix(s[1:], `"`)
	if !ok {
		return false
	}
	escaped := false
	for _, r := range inside {
		switch {
		case r >= utf8.RuneSelf && !international, r < ' ', r == 0x7f, r == '"' && !escaped:
			return false
		}
		escaped = r == '\\' && !escaped
	}
	return !escaped
}

func isMailDomain(s string, international bool) bool {
	if literal, ok := strings.CutPrefix(s, "["); ok {
		literal, ok = strings.CutSuffix(literal, "]")
		if v6, tagged := strings.CutPrefix(literal, "IPv6:"); ok && tagged {
			return isIPv6(v6)
		}
		return ok && isIPv4(literal)
	}
	if !international {
		return isHostname(s)
	}
	return isIDNHostname(s) || isLoosely(s)
}

// isLoosely: a mail domain may be written before it is normalised, which a hostname may not.
func isLoosely(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") ||
			strings.ContainsFunc(label, func(r rune) bool {
				return r < utf8.RuneSelf && r != '-' && !alphanumeric(byte(r))
			}) {
			return false
		}
	}
	return len(s) <= maxHostname
}

func isPointer(s string) bool {
	if s == "" {
		return true
	}
	if s[0] != '/' {
		return false
	}
	for i := range len(s) {
		if s[i] == '~' && (i+1 == len(s) || s[i+1] != '0' && s[i+1] != '1') {
			return false
		}
	}
	return true
}

func isRelativePointer(s string) bool {
	rest := strings.TrimLeft(s, "0123456789")
	up := s[:len(s)-len(rest)]
	return up != "" && (up == "0" || up[0] != '0') && (rest == "#" || isPointer(rest))
}

func alphanumeric(c byte) bool { return digit(c) || letter(c) }
func digit(c byte) bool        { return c >= '0' && c <= '9' }
func letter(c byte) bool       { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func hexadecimal(c byte) bool  { return digit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }
