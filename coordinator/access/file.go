package access

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"ao/shared/strictjson"
)

// tokenPrefix begins every API token; session tokens begin differently (runnerapi.SessionToken).
const tokenPrefix = "aot_"

// NewToken makes an API token, of 130 random bits.
func NewToken() string { return tokenPrefix + rand.Text() }

// Entry is a line of the file: the name, scopes and hash of a token. The token itself is not stored.
type Entry struct {
	Name    string
	Scopes  string // comma list, as written
	Scope   Scope  // the largest of them
	Hash    [sha256.Size]byte
	Created time.Time // zero: unknown
	Expires time.Time // zero: never
}

// Hash returns what is stored of a token. Tokens are random and long, so they cannot be guessed.
func Hash(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }

// Expired reports whether a token has expired.
func (e Entry) Expired(now time.Time) bool { return !e.Expires.IsZero() && !now.Before(e.Expires) }

// Line formats the entry for the file.
func (e Entry) Line() string {
	line := fmt.Sprintf("%s %s sha256:%x", e.Name, e.Scopes, e.Hash)
	if !e.Created.IsZero() {
		line += " created=" + e.Created.UTC().Format(time.RFC3339)
	}
	if !e.Expires.IsZero() {
		line += " expires=" + e.Expires.UTC().Format(time.RFC3339)
	}
	return line
}

var tokenName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// secret matches an API token. It is in no name, so that names can be shown.
var secret = regexp.MustCompile(tokenPrefix + `[A-Z2-7]{26}`)

// CheckName checks the name of a token. The error does not show a token that was given instead.
func CheckName(name string) error {
	if secret.MatchString(name) {
		return errors.New("the name contains a token; give a name that may be shown")
	}
	if !tokenName.MatchString(name) {
		return fmt.Errorf("name %.80q: use 1 to 64 letters, digits, '.', '_' or '-', beginning with a letter or digit",
			name)
	}
	return nil
}

// example describes a valid line.
const example = "write: NAME SCOPES sha256:HASH [created=TIME] [expires=TIME], as 'ao tokens create' does"

// readLine parses a line with a token. Errors name the word and do not show it: it may be a token, or a part of one.
func readLine(line string) (e Entry, err error) {
	if secret.MatchString(line) {
		return e, fmt.Errorf("it contains a token, and only the hash of one may be there; %s", example)
	}
	words := strings.Fields(line)
	if len(words) < 3 {
		return e, fmt.Errorf("%d words where a token has at least three; %s", len(words), example)
	}
	e.Name, e.Scopes = words[0], words[1]
	if CheckName(e.Name) != nil {
		return e, fmt.Errorf("the first word is not a name (1 to 64 letters, digits, '.', '_' or '-'); %s", example)
	}
	e.Scope, err = ReadScopes(e.Scopes)
	if err != nil {
		return e, fmt.Errorf("the second word is not a list of scopes such as read,run; %s", example)
	}
	digits, ok := strings.CutPrefix(words[2], "sha256:")
	hash, err := hex.DecodeString(digits)
	if !ok || err != nil || len(hash) != sha256.Size {
		return e, fmt.Errorf("the third word is not a hash (sha256: and 64 hexadecimal digits); %s", example)
	}
	copy(e.Hash[:], hash)
	for _, word := range words[3:] {
		key, value, _ := strings.Cut(word, "=")
		at, err := time.Parse(time.RFC3339, value)
		switch {
		case key != "created" && key != "expires":
			return e, fmt.Errorf("only created= and expires= may follow the hash; %s", example)
		case err != nil:
			return e, fmt.Errorf("%s= is not a time such as 2026-01-31T12:00:00Z; %s", key, example)
		case key == "created":
			e.Created = at
		default:
			e.Expires = at
		}
	}
	return e, nil
}

// parseTokens parses a file of tokens, one per line. It skips empty lines and those that begin with #. Errors name
// the line.
func parseTokens(text []byte) ([]Entry, error) {
	var all []Entry
	at := map[string]int{}
	s := bufio.NewScanner(bytes.NewReader(strictjson.TrimBOM(text)))
	for n := 1; s.Scan(); n++ {
		line := strings.TrimSpace(s.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		e, err := readLine(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if first, twice := at[e.Name]; twice {
			return nil, fmt.Errorf("line %d: token %q is in line %d already; give each its own name", n, e.Name, first)
		}
		at[e.Name] = n
		all = append(all, e)
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("after %d tokens: %w", len(all), err)
	}
	return all, nil
}
