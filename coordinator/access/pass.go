package access

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ao/shared/fault"
)

// Pass stands for a token for a while, without showing it: it names the token and is signed. The zero Pass is invalid.
type Pass struct {
	Token string    // the name of the token
	ID    string    // of the login, also after renewal; a code has its own
	At    time.Time // when it was made
}

// Kind is what a pass is for.
type Kind struct {
	name string
	TTL  time.Duration // how long it is valid
}

// The kinds of passes.
var (
	Cookie = Kind{"cookie", 12 * time.Hour} // every request of a browser
	Code   = Kind{"code", 60 * time.Second} // one login
)

// Sign signs a text with the secret of the deployment.
type Sign func(text string) string

// text returns what is signed. It has the token's hash, so a pass ends with its token.
func (p Pass) text(k Kind, e Entry) string {
	return fmt.Sprintf("%s|%d|%s|%s|%x", k.name, p.At.Unix(), p.ID, p.Token, e.Hash)
}

// readPass parses a pass and does not check it.
func readPass(text string) (p Pass, signature string, ok bool) {
	words := strings.SplitN(text, ".", 4)
	if len(words) != 4 || words[1] == "" || len(words[1]) > 64 || strings.ContainsFunc(words[1], notInID) ||
		CheckName(words[3]) != nil {
		return Pass{}, "", false
	}
	at, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		return Pass{}, "", false
	}
	return Pass{words[3], words[1], time.Unix(at, 0)}, words[2], true
}

func notInID(c rune) bool { return !('A' <= c && c <= 'Z' || '2' <= c && c <= '7') }

// Issue makes a pass for a new login of a caller with an API token; empty: the token was revoked meanwhile.
func (t *Tokens) Issue(k Kind, who Caller, sign Sign) string {
	return t.issue(k, Pass{Token: who.Name, ID: rand.Text()}, sign)
}

// Renew makes a pass of the same login that starts now.
func (t *Tokens) Renew(k Kind, p Pass, sign Sign) string { return t.issue(k, p, sign) }

func (t *Tokens) issue(k Kind, p Pass, sign Sign) string {
	e, ok := t.named(p.Token)
	if !ok {
		return ""
	}
	p.At = t.now()
	return fmt.Sprintf("%d.%s.%s.%s", p.At.Unix(), p.ID, sign(p.text(k, e)), p.Token)
}

// CheckPass returns the caller of a pass. It does not know whether the login has ended. Its error is Unauthorized.
func (t *Tokens) CheckPass(k Kind, text string, sign Sign) (Caller, error) {
	wrong := fault.New(fault.Unauthorized, "", "This login is not valid here, or its token is revoked; log in again")
	p, signature, ok := readPass(text)
	if !ok {
		return Caller{}, wrong
	}
	e, ok := t.named(p.Token)
	if subtle.ConstantTimeCompare([]byte(sign(p.text(k, e))), []byte(signature)) != 1 || !ok {
		return Caller{}, wrong
	}
	now := t.now()
	if now.Sub(p.At) >= k.TTL || p.At.Sub(now) > time.Hour {
		return Caller{}, fault.New(fault.Unauthorized, "", "This login has expired; log in again")
	}
	if e.Expired(now) {
		return Caller{}, expired(e)
	}
	who := e.caller()
	who.Login = p
	return who, nil
}

// NeedsRenewal reports whether a pass should be renewed when it is used.
func (t *Tokens) NeedsRenewal(k Kind, p Pass) bool { return t.now().Sub(p.At) > k.TTL/12 }

// named returns the token with this name.
func (t *Tokens) named(name string) (Entry, bool) {
	for _, e := range t.current() {
		if e.Name == name {
			return e, true
		}
	}
	return Entry{}, false
}
