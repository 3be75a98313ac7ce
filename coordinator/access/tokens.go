package access

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"ao/shared/fault"
)

// Tokens are the API tokens of a file, which is read again when it changes.
type Tokens struct {
	path string
	log  *slog.Logger
	now  func() time.Time

	mu       sync.RWMutex
	all      []Entry
	fileInfo fs.FileInfo // the file as it was read last; nil: it was not there
}

// Load reads a file of tokens. A file that cannot be read is an error here. Later, it is logged and the tokens stay.
func Load(path string, log *slog.Logger) (*Tokens, error) {
	t := &Tokens{path: path, log: cmp.Or(log, slog.Default()), now: time.Now}
	all, seen, err := readFile(path)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		t.log.Warn("the token file has no tokens, so every request is refused; create a token with 'ao tokens create'",
			"file", path)
	}
	t.all, t.fileInfo = all, seen
	return t, nil
}

// readFile returns the tokens and the file's state before it was read, so that a change meanwhile is seen next time.
func readFile(path string) ([]Entry, fs.FileInfo, error) {
	seen, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("AO_API_TOKENS %q: the file does not exist; create it with: ao tokens create "+
			"--file "+
			"%s --name me --scope admin", path, path)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("AO_API_TOKENS %q cannot be read: %w", path, err)
	}
	all, err := parseTokens(text)
	if err != nil {
		return nil, seen, fmt.Errorf("AO_API_TOKENS %q: %w", path, err)
	}
	return all, seen, nil
}

// Check returns the caller of a token. An unknown or expired token is Unauthorized.
func (t *Tokens) Check(token string) (Caller, error) {
	hash := Hash(token)
	found := -1
	all := t.current()
	for i := range all { // all of them, in constant time
		if subtle.ConstantTimeCompare(all[i].Hash[:], hash[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return Caller{}, fault.New(fault.Unauthorized, "", "Unknown token: it was never created here, or it was "+
			"revoked")
	}
	e := all[found]
	if e.Expired(t.now()) {
		return Caller{}, expired(e)
	}
	return e.caller(), nil
}

// caller returns the caller with this token.
func (e Entry) caller() Caller {
	return Caller{Name: e.Name, Scope: e.Scope, Expires: e.Expires, key: "token:" +
		hex.EncodeToString(e.Hash[:sha256.Size/2])}
}

func expired(e Entry) error {
	return fault.Newf(fault.Unauthorized, "Token %q has expired; the coordinator's operator creates another with: "+
		"ao tokens create", e.Name)
}

// longLived is the lifetime from which the end of a token is reported.
const longLived = 30 * 24 * time.Hour

// NextExpiry returns when the next long-lived token expires; zero: none does.
func (t *Tokens) NextExpiry() (next time.Time) {
	now := t.now()
	for _, e := range t.current() {
		if e.Expires.IsZero() || e.Expired(now) || !e.Created.IsZero() && e.Expires.Sub(e.Created) < longLived {
			continue
		}
		if next.IsZero() || e.Expires.Before(next) {
			next = e.Expires
		}
	}
	return next
}

// current returns the tokens of the file as it is now.
func (t *Tokens) current() []Entry {
	now, err := os.Stat(t.path)
	if err != nil {
		now = nil
	}
	t.mu.RLock()
	all, same := t.all, SameFile(now, t.fileInfo)
	t.mu.RUnlock()
	if same {
		return all
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if SameFile(now, t.fileInfo) {
		return t.all
	}
	read, seen, err := readFile(t.path)
	t.fileInfo = seen
	if err != nil {
		t.log.Error("token file is invalid; the tokens read before remain valid", "err", err)
		return t.all
	}
	t.log.Info("API tokens reloaded", "file", t.path, "tokens", len(read))
	t.all = read
	return t.all
}

// SameFile reports whether a file is unchanged.
func SameFile(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
