package agent

import (
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
	for _, part := range secretNames {
		if strings.Contains(name, part) {
			return true
		}
	}
	return strings.HasSuffix(name, "auth") || strings.HasSuffix(name, "pass") || strings.HasSuffix(name, "pwd")
}

// secretFlag reports whether a word is a flag whose value, the next word, is a secret. -H is a header.
func secretFlag(word string) bool {
	return strings.HasPrefix(word, "-") && !strings.Contains(word, "=") && (secretName(word) || word == "-H")
}

// maskText hides the secrets in a text, which may be an argument, a command line or a URL. Behind the first value of a
// flag or a name all is hidden: nothing shows where a value with spaces ends.
func maskText(text string) string {
	words := strings.Split(text, " ")
	for i, word := range words {
		hidden, all := maskAssigned(word)
		words[i] = maskURLs(hidden)
		if secretFlag(word) && slices.ContainsFunc(words[i+1:], notBlank) {
			return strings.Join(words[:i+1], " ") + " " + mask
		}
		if all {
			return strings.Join(words[:i+1], " ")
		}
	}
	return strings.Join(words, " ")
}

func notBlank(word string) bool { return strings.TrimSpace(word) != "" }

// maskAssigned hides what is assigned to a secret's name: --token=x, -eAPI_KEY=x, --env=API_KEY=x. Queries are left.
func maskAssigned(word string) (hidden string, found bool) {
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
	urlUser  = regexp.MustCompile(`://[^/?#\s]*@`)
	urlQuery = regexp.MustCompile(`\?[^#\s]*`)
)

// maskURLs hides of the URLs in a word who uses them, and the values of their queries.
func maskURLs(word string) string {
	if !strings.Contains(word, "://") {
		return word
	}
	return urlQuery.ReplaceAllStringFunc(urlUser.ReplaceAllString(word, "://"+mask+"@"), maskQuery)
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
