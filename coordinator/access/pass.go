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

// Pass is what lets somebody in for a while who does not show a token: it names the token that it stands for, and is
// signed. The zero Pass is none.
type Pass struct {
	Token string    // the name of the token
	ID    string    // of the login, which a renewed pass keeps; of a code, its own
	At    time.Time // when it was made
}

// Kind is what a pass is good for.
type Kind struct {
	name string
	TTL  time.Duration // how long it is good
}

// The kinds of passes.
var (
	Cookie = Kind{"cookie", 12 * time.Hour} // every request of a browser
	Code   = Kind{"code", 60 * time.Second} // one login
)

// Sign signs a text with what all coordinators of a deployment know.
type Sign func(text string) string

// text is what is signed: the token's hash is in it, so a pass ends with its token, and is no other's by the same name.
func (p Pass) text(k Kind, e Entry) string {
	return fmt.Sprintf("%s|%d|%s|%s|%x", k.name, p.At.Unix(), p.ID, p.Token, e.Hash)
}

// readPass reads what write has written, without believing it.
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

// Issue makes a pass for a caller with an API token, of a login that begins; empty: its token is gone meanwhile.
func (t *Tokens) Issue(k Kind, who Caller, sign Sign) string {
	return t.issue(k, Pass{Token: who.Name, ID: rand.Text()}, sign)
}

// Renew makes a pass of the same login that lasts as long as a new one.
func (t *Tokens) Renew(k Kind, p Pass, sign Sign) string { return t.issue(k, p, sign) }

func (t *Tokens) issue(k Kind, p Pass, sign Sign) string {
	e, ok := t.named(p.Token)
	if !ok {
		return ""
	}
	p.At = t.now()
	return fmt.Sprintf("%d.%s.%s.%s", p.At.Unix(), p.ID, sign(p.text(k, e)), p.Token)
}

// CheckPass tells who shows a pass. It does not know whether the login is over. The error is Unauthorized.
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

// NeedsRenewal says that a pass is to be renewed when it is used.
func (t *Tokens) NeedsRenewal(k Kind, p Pass) bool { return t.now().Sub(p.At) > k.TTL/12 }

// named is the token of that name.
func (t *Tokens) named(name string) (Entry, bool) {
	for _, e := range t.current() {
		if e.Name == name {
			return e, true
		}
	}
	return Entry{}, false
}
