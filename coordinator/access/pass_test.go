package access

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"ao/shared/fault"
)

// signed is a signature for tests.
func signed(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte("secret"+text))) }

// TestPassIsLimited: a pass is valid for its lifetime, for its purpose, and for as long as its token.
func TestPassIsLimited(t *testing.T) {
	path, token, tokens, _ := openTokens(t)
	now := time.Now()
	tokens.now = func() time.Time { return now }
	me, err := tokens.Check(token)
	if err != nil {
		t.Fatal(err)
	}
	cookie, code := tokens.Issue(Cookie, me, signed), tokens.Issue(Code, me, signed)
	check := func(at time.Duration, k Kind, text string, good bool) Caller {
		t.Helper()
		now = now.Add(at)
		who, err := tokens.CheckPass(k, text, signed)
		if good != (err == nil) || err != nil && fault.KindOf(err) != fault.Unauthorized || good &&
			(who.Name != "me" || who.Scope != Admin || who.KeyScope() != me.KeyScope()) {
			t.Errorf("%v: %+v, %v; want good %v", at, who, err, good)
		}
		now = now.Add(-at)
		return who
	}
	check(0, Cookie, cookie, true)
	check(12*time.Hour-2*time.Second, Cookie, cookie, true)
	check(12*time.Hour, Cookie, cookie, false)
	check(-2*time.Hour, Cookie, cookie, false) // made in the future
	check(58*time.Second, Code, code, true)
	check(60*time.Second, Code, code, false)
	check(0, Code, cookie, false)
	check(0, Cookie, code, false)

	login := check(0, Cookie, cookie, true).Login
	now = now.Add(11 * time.Hour)
	if !tokens.NeedsRenewal(Cookie, login) {
		t.Error("it is not renewed")
	}
	renewed := tokens.Renew(Cookie, login, signed)
	again := check(11*time.Hour, Cookie, renewed, true)
	if again.Login.ID != login.ID || tokens.NeedsRenewal(Cookie, again.Login) {
		t.Errorf("renewed: %+v of %+v", again.Login, login)
	}
	check(2*time.Hour, Cookie, cookie, false)

	words := strings.SplitN(renewed, ".", 4)
	for i := range words { // nothing of it can be another
		other := append([]string{}, words...)
		other[i] = map[int]string{0: fmt.Sprint(now.Unix() + 1), 1: strings.Repeat("A", 26), 2: strings.Repeat("0", 64),
			3: "you"}[i]
		check(0, Cookie, strings.Join(other, "."), false)
	}
	if err := Revoke(path, "me"); err != nil {
		t.Fatal(err)
	}
	check(0, Cookie, renewed, false)
	if text := tokens.Renew(Cookie, login, signed); text != "" {
		t.Errorf("of a revoked token there is still %s", text)
	}
	if _, err := Create(path, "me", []string{"admin"}, now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	check(0, Cookie, renewed, false)
	brief := tokens.Issue(Cookie, Caller{Name: "me"}, signed)
	if _, err := tokens.CheckPass(Cookie, brief, signed); err != nil {
		t.Error(err)
	}
	check(2*time.Hour, Cookie, brief, false) // the token has expired
}

// FuzzPass: only what was signed is accepted.
func FuzzPass(f *testing.F) {
	f.Add("1.A.b.me")
	f.Add("99999999999999999999.A.b.me")
	f.Add("....")
	f.Fuzz(func(t *testing.T, text string) {
		if p, _, ok := readPass(text); ok && (CheckName(p.Token) != nil || len(p.ID) > 64) {
			t.Errorf("%q is read as %+v", text, p)
		}
	})
}
