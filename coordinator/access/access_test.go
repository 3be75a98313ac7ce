package access

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/shared/fault"
)

func TestScopes(t *testing.T) {
	for _, tt := range []struct {
		list string
		want Scope
		err  string
	}{
		{"read", Read, ""}, {"run", Run, ""}, {"admin", Admin, ""}, {"read,run", Run, ""}, {"admin, read", Admin, ""},
		{"", Open, `scope "": use read, run or admin`}, {"open", Open, `scope "open": use read, run or admin`},
		{"read,all", Open, `scope "all": use read, run or admin`},
	} {
		got, err := ReadScopes(tt.list)
		if got != tt.want || fmt.Sprint(err) != tt.err && (err != nil || tt.err != "") {
			t.Errorf("%q: got %v, %v; want %v, %s", tt.list, got, err, tt.want, tt.err)
		}
	}
}

// TestByteOrderMark: an editor may have put one before the first line.
func TestByteOrderMark(t *testing.T) {
	path, token, _, _ := openTokens(t)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append([]byte("\ufeff"), text...), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := Load(path, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.Check(token); err != nil {
		t.Error(err)
	}
}

// TestBadLines: the line is named, and what may be a token is not repeated.
func TestBadLines(t *testing.T) {
	hash := "sha256:" + strings.Repeat("ab", 32)
	for _, tt := range []struct{ text, want string }{
		{"\n# all of us\nme admin " + hash + "\n", ""},
		{"me admin " + hash + " created=2026-01-02T03:04:05Z expires=2027-01-02T03:04:05Z", ""},
		{"# x\nme admin", `line 2: 2 words where a token has at least three; ` + example},
		{"me admin aot_SECRET",
			`line 1: the third word is not a hash (sha256: and 64 hexadecimal digits); ` + example},
		{"me admin sha256:abc",
			`line 1: the third word is not a hash (sha256: and 64 hexadecimal digits); ` + example},
		{"me admin " + NewToken(), `line 1: it contains a token, and only the hash of one may be there; ` + example},
		{"me root " + hash, `line 1: the second word is not a list of scopes such as read,run; ` + example},
		{"me " + NewToken()[5:] + " " + hash,
			`line 1: the second word is not a list of scopes such as read,run; ` + example},
		{"m/e admin " + hash, `line 1: the first word is not a name (1 to 64 letters, digits, '.', '_' or '-'); ` +
			example},
		{"a run " + hash + "\n\na read " + hash, `line 3: token "a" is in line 1 already; give each its ` +
			`own name`},
		{"a run " + hash + " expires=tomorrow", `line 1: expires= is not a time such as 2026-01-31T12:00:00Z; ` +
			example},
		{"a run " + hash + " colour=red", `line 1: only created= and expires= may follow the hash; ` + example},
		{"a run " + hash + strings.Repeat(" ", 1<<17), `after 0 tokens: bufio.Scanner: token too long`},
	} {
		_, err := parseTokens([]byte(tt.text))
		if got := fmt.Sprint(err); got != tt.want && (err != nil || tt.want != "") {
			t.Errorf("%.60q\n got %s\nwant %s", tt.text, got, tt.want)
		}
	}
}

func TestEntryLineRoundTrip(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, e := range []Entry{
		{Name: "a", Scopes: "read,run", Scope: Run, Hash: Hash("x")},
		{Name: "b.c", Scopes: "admin", Scope: Admin, Hash: Hash("y"), Created: at, Expires: at.Add(time.Hour)},
	} {
		if got, err := readLine(e.Line()); err != nil || got != e {
			t.Errorf("got %+v, %v; want %+v", got, err, e)
		}
	}
}

// held is a file with one admin token, as the coordinator has it.
func openTokens(t *testing.T) (path, token string, tokens *Tokens, log *bytes.Buffer) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "tokens")
	token, err := Create(path, "me", []string{"admin"}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	log = new(bytes.Buffer)
	tokens, err = Load(path, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return path, token, tokens, log
}

func TestCheck(t *testing.T) {
	path, token, tokens, _ := openTokens(t)
	other, err := Create(path, "ci", []string{"read", "run"}, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	who, err := tokens.Check(other)
	if err != nil || who.Name != "ci" || who.Scope != Run || who.Session != "" {
		t.Errorf("got %+v, %v", who, err)
	}
	if me, err := tokens.Check(token); err != nil || me.KeyScope() == who.KeyScope() ||
		me.KeyScope() == Unauthenticated.KeyScope() {
		t.Errorf("keys of two tokens: %q and %q, %v", me.KeyScope(), who.KeyScope(), err)
	}
	if err := who.RequireScope(Run); err != nil {
		t.Errorf("what it has: %v", err)
	}
	if err := who.RequireScope(Admin); fault.KindOf(err) != fault.Forbidden ||
		!strings.Contains(err.Error(), "scope admin") {
		t.Errorf("more than it has: %v", err)
	}
	for _, bad := range []string{"", "aot_", token + "x", token[:len(token)-1], strings.ToLower(token)} {
		if _, err := tokens.Check(bad); fault.KindOf(err) != fault.Unauthorized {
			t.Errorf("%q: %v", bad, err)
		}
	}
	tokens.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	if _, err := tokens.Check(other); fault.KindOf(err) != fault.Unauthorized ||
		!strings.Contains(err.Error(), `Token "ci" has expired`) {
		t.Errorf("after its time: %v", err)
	}
}

// TestFileIsReloaded: a changed file counts at once. One that cannot be used changes nothing, and is reported once.
func TestFileIsReloaded(t *testing.T) {
	path, token, tokens, log := openTokens(t)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, spoil := range []func() error{
		func() error { return os.WriteFile(path, []byte("me\n"), 0o600) },
		func() error { return os.Remove(path) },
	} {
		log.Reset()
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := tokens.Check(token); err != nil {
				t.Errorf("a bad file locks everybody out: %v", err)
			}
		}
		if n := strings.Count(log.String(), "token file is invalid"); n != 1 {
			t.Errorf("reported %d times:\n%s", n, log)
		}
	}
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Revoke(path, "me"); err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.Check(token); fault.KindOf(err) != fault.Unauthorized {
		t.Errorf("revoked: %v", err)
	}
}

func TestEdits(t *testing.T) {
	path, token, _, _ := openTokens(t)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	text, _ := os.ReadFile(path)
	if strings.Contains(string(text), token) {
		t.Error("the token itself is in the file")
	}
	// no line's end
	if err := os.WriteFile(path, append(text, "# of the team\n\nteam read sha256:"+strings.Repeat("00", 32)...),
		0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(path, "me", []string{"read"}, time.Time{}); err == nil ||
		!strings.Contains(err.Error(), `token "me" already exists`) {
		t.Errorf("a name twice: %v", err)
	}
	if err := Revoke(path, "#"); err == nil {
		t.Error("a comment is revoked")
	}
	if err := Revoke(path, "nobody"); err == nil || !strings.Contains(err.Error(), `there is no token "nobody"`) {
		t.Errorf("nobody's: %v", err)
	}
	var wg sync.WaitGroup
	for i := range 10 { // none is lost
		wg.Go(func() {
			if _, err := Create(path, fmt.Sprint("t", i), []string{"read"}, time.Time{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := Revoke(path, "me"); err != nil {
		t.Fatal(err)
	}
	all, err := List(path)
	after, _ := os.ReadFile(path)
	if err != nil || len(all) != 11 || !strings.Contains(string(after), "# of the team\n\nteam read") {
		t.Errorf("%d tokens, %v:\n%s", len(all), err, after)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	bad := []byte("me\n")
	if err := os.WriteFile(path, bad, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(path, "x", []string{"read"}, time.Time{}); err == nil ||
		!strings.Contains(err.Error(), "line 1") {
		t.Errorf("a bad file: %v", err)
	}
	if now, _ := os.ReadFile(path); !bytes.Equal(now, bad) {
		t.Errorf("a file that could not be read was changed: %q", now)
	}
}
