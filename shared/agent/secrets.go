package agent

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// mask stands for a text that is not shown.
const mask = "••••"

// secretNames are what names of secrets contain.
var secretNames = []string{
	"token", "key", "secret", "passw", "passphrase", "credential", "authorization", "bearer", "cookie", "header",
}

// secretName reports whether a name looks like that of a secret.
func secretName(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(secretNames, func(part string) bool { return strings.Contains(name, part) }) ||
		strings.HasSuffix(name, "auth") || strings.HasSuffix(name, "pass") || strings.HasSuffix(name, "pwd")
}

// secretFlag reports whether a word is a flag whose value, the next word, is a secret. -H is a header.
func secretFlag(word string) bool {
	return strings.HasPrefix(word, "-") && !strings.Contains(word, "=") && (secretName(word) || word == "-H")
}

// userFlags have a user as their value. It is a secret where it has a password behind a colon.
var userFlags = []string{"-u", "-U", "--user", "--proxy-user"}

// maskText hides the secrets in a text, which may be an argument, a command line or a URL. Behind the first value of a
// flag or a name all is hidden: nothing shows where a value with spaces ends.
func maskText(text string) string {
	words := strings.Split(text, " ")
	for i, word := range words {
		hidden, all := maskAssigned(word)
		words[i] = maskUsers(hidden)
		if all {
			return strings.Join(words[:i+1], " ")
		}
		if hidesNext(word, words[i+1:]) {
			return strings.Join(words[:i+1], " ") + " " + mask
		}
	}
	return strings.Join(words, " ")
}

// hidesNext reports whether the next word is a secret: the value of a flag, or what follows Bearer.
func hidesNext(word string, rest []string) bool {
	user := slices.Contains(userFlags, word)
	if !user && !secretFlag(word) && !strings.EqualFold(word, "bearer") {
		return false
	}
	i := slices.IndexFunc(rest, func(word string) bool { return strings.TrimSpace(word) != "" })
	return i >= 0 && (!user || strings.Contains(rest[i], ":"))
}

var (
	header  = regexp.MustCompile(`^["']?(?:-H)?["']?([A-Za-z][A-Za-z0-9_-]*):`)
	userPin = regexp.MustCompile(`^(?:-[uU]|--(?:proxy-)?user=)[^:]*:`)
)

// maskAssigned hides what is assigned to a secret's name: --token=x, -eAPI_KEY=x, --env=API_KEY=x, X-Api-Key:x, and the
// user of -ux:y and --user=x:y. Queries are left.
func maskAssigned(word string) (hidden string, found bool) {
	if m := header.FindStringSubmatch(word); m != nil && (secretName(m[1]) || strings.Contains(m[0], "-H")) {
		return m[0] + mask, true
	}
	if userPin.MatchString(word) {
		return word[:cmp.Or(strings.IndexByte(word, '=')+1, 2)] + mask, true
	}
	for at, begin := 0, 0; ; begin = at {
		i := strings.IndexByte(word[at:], '=')
		if i < 0 {
			return word, false
		}
		at += i + 1
		name := word[begin : at-1]
		if strings.Contains(name, "://") {
			return word, false
		}
		if secretName(name) || name == "-H" {
			return word[:at] + mask, true
		}
	}
}

var (
	urlUser     = regexp.MustCompile(`://[^/?#\s]*@`)
	urlQuery    = regexp.MustCompile(`\?[^#\s]*`)
	urlFragment = regexp.MustCompile(`#\S+`)
	plainUser   = regexp.MustCompile(`[^\s:=@]+:[^\s@]+@`)
)

// maskUsers hides of the URLs in a word who uses them, the values of their queries, and their fragments. Without a
// scheme it hides user:password@.
func maskUsers(word string) string {
	if !strings.Contains(word, "://") {
		return plainUser.ReplaceAllString(word, mask+"@")
	}
	word = urlQuery.ReplaceAllStringFunc(urlUser.ReplaceAllString(word, "://"+mask+"@"), maskQuery)
	return urlFragment.ReplaceAllString(word, "#"+mask)
}

func maskQuery(query string) string {
	pairs := strings.Split(query[1:], "&")
	for i, pair := range pairs {
		switch name, value, assigned := strings.Cut(pair, "="); {
		case assigned && value != "":
			pairs[i] = name + "=" + mask
		case pair != "" && !assigned:
			pairs[i] = mask
		}
	}
	return "?" + strings.Join(pairs, "&")
}
