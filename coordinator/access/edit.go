package access

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// header begins a file that is made.
const header = "# API tokens of Agent Orchestrator: names, scopes, hashes. Made by 'ao tokens'; the tokens " +
	"themselves are not stored.\n"

// Create adds a token to a file, which is made if needed. Only its hash is stored, so it is returned this once.
func Create(path, name string, scopes []string, expires time.Time) (token string, err error) {
	if err := CheckName(name); err != nil {
		return "", err
	}
	e := Entry{Name: name, Scopes: strings.Join(scopes, ","), Created: time.Now(), Expires: expires}
	e.Scope, err = ReadScopes(e.Scopes)
	if err != nil {
		return "", err
	}
	token = NewToken()
	e.Hash = Hash(token)
	err = edit(path, func(text []byte, all []Entry) ([]byte, error) {
		if slices.ContainsFunc(all, func(other Entry) bool { return other.Name == name }) {
			return nil, fmt.Errorf("token %q already exists; revoke it first, or choose another name", name)
		}
		if text == nil {
			text = []byte(header)
		}
		if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
			text = append(text, '\n')
		}
		return append(text, e.Line()+"\n"...), nil
	})
	if err != nil {
		return "", err
	}
	return token, nil
}

// List returns the tokens of a file.
func List(path string) ([]Entry, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("file %s does not exist; 'ao tokens create' creates it", path)
	} else if err != nil {
		return nil, err
	}
	return parseFile(path, text)
}

func parseFile(path string, text []byte) ([]Entry, error) {
	all, err := parseTokens(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

// Revoke removes a token from a file and keeps all other text.
func Revoke(path, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	return edit(path, func(text []byte, _ []Entry) ([]byte, error) {
		var kept []byte
		found := false
		for line := range bytes.Lines(text) {
			if words := bytes.Fields(line); len(words) > 0 && string(words[0]) == name {
				found = true
				continue
			}
			kept = append(kept, line...)
		}
		if !found {
			return nil, fmt.Errorf("there is no token %q; 'ao tokens list' lists them", name)
		}
		return kept, nil
	})
}

// edit changes a file atomically under a lock. text is nil where there is no file. An unreadable file is not changed.
func edit(path string, change func(text []byte, all []Entry) ([]byte, error)) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	// the lock ends with the descriptor, so a crash leaves nothing
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("%s cannot be locked: %w", dir.Name(), err)
	}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	all, err := parseFile(path, text)
	if err != nil {
		return err
	}
	next, err := change(text, all)
	if err != nil {
		return err
	}
	if _, err := parseFile(path, next); err != nil {
		return err
	}
	return replace(path, next, dir)
}

// replace writes a temporary file and renames it over the old one. Only the owner can read it; the owner is kept where
// possible.
func replace(path string, text []byte, dir *os.File) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".tokens-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone if all went well
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if old, statErr := os.Stat(path); statErr == nil {
		if owner, ok := old.Sys().(*syscall.Stat_t); ok {
			_ = f.Chown(int(owner.Uid), int(owner.Gid)) // refused where it is ours
		}
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return dir.Sync()
}
