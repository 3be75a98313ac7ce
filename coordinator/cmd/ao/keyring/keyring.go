// Package keyring creates the credentials of a deployment once: NATS users, the first API tokens and, if asked for, a
// certificate authority with server certificates. Existing files stay as they are. It also prepares NATS data
// folders. Each program has its own folder, with everything it must read and nothing of other programs.
package keyring

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"ao/coordinator/access"
	"ao/nats/users"
)

// Options say what must exist.
type Options struct {
	Dir     string                     // created if missing
	Workers map[string][]users.Profile // by name: workers limited to these profiles, in folders worker-<name>
	TLS     bool
	Hosts   []string  // names and addresses of the servers besides localhost; none: unchanged
	Now     time.Time // default time.Now

	NATSData []string // data folders of NATS servers: each gets a storage limit
	Store    int64    // that limit in bytes; 0: what fits on its disk
	Staging  []string // data folders of single NATS servers: each gets a mount point for its batches in memory
}

// The states of a file.
const (
	stateMade    = "made"
	stateKept    = "kept"
	stateChanged = "changed" // rewritten, because its inputs have changed
)

// File is a file that exists now.
type File struct {
	Path  string `json:"path"` // below the folder
	State string `json:"state"`
	What  string `json:"what"`
}

// Result is what exists now.
type Result struct {
	Dir   string     `json:"dir"`
	Files []File     `json:"files"`
	TLS   bool       `json:"tls"`
	Users []UserInfo `json:"nats_users"`
}

// UserInfo is a NATS user without its secret.
type UserInfo struct {
	Name  string     `json:"name"`
	Role  users.Role `json:"role"`
	Inbox string     `json:"inbox_prefix"`
}

// Changed reports whether any file was created or rewritten.
func (r *Result) Changed() bool {
	return slices.ContainsFunc(r.Files, func(f File) bool { return f.State != stateKept })
}

// Make creates what is missing. A second call changes nothing, and completes a call that was interrupted.
func Make(w Options) (*Result, error) {
	if w.Now.IsZero() {
		w.Now = time.Now()
	}
	dir, err := filepath.Abs(w.Dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, fmt.Errorf("%s cannot be locked: %w", dir, err)
	}
	r := &Result{Dir: dir}
	all, err := r.users(w)
	if err != nil {
		return nil, err
	}
	if err := r.tokens(); err != nil {
		return nil, err
	}
	tls, err := r.certificates(w, all)
	if err != nil {
		return nil, err
	}
	if err := r.permissions(all, tls); err != nil {
		return nil, err
	}
	if err := r.storeLimits(w); err != nil {
		return nil, err
	}
	return r, r.stagingFolders(w)
}

// permissions updates the NATS configuration in place and keeps what an operator added to it.
func (r *Result) permissions(all []users.User, tls users.TLS) error {
	const name = "nats/users.conf"
	text := users.Config(all, tls)
	have, err := r.read(name)
	if err != nil {
		return err
	}
	if have != nil {
		text, err = users.Renew(string(have), all, tls)
		if err != nil {
			return fmt.Errorf("%s: %w", r.path(name), err)
		}
	}
	return r.writeDerived(name,
		"users and permissions of NATS: AO_NATS_USERS, or included by the server's configuration", text)
}

// path returns the full path of a file.
func (r *Result) path(name string) string { return filepath.Join(r.Dir, filepath.FromSlash(name)) }

func (r *Result) record(name, state, what string) {
	r.Files = append(r.Files, File{name, state, what})
}

// read returns a file's content; nil if it does not exist.
func (r *Result) read(name string) ([]byte, error) {
	text, err := os.ReadFile(r.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// File modes.
const (
	secret = 0o600
	public = 0o644
)

// write replaces a file atomically.
func (r *Result) write(name string, mode fs.FileMode, text []byte) error {
	path := r.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // already renamed on success
	_, err = f.Write(text)
	if err := errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// writeDerived writes a file without secrets that is derived from other files, if its content differs.
func (r *Result) writeDerived(name, what, text string) error {
	have, err := r.read(name)
	state := stateKept
	switch {
	case err != nil:
		return err
	case have == nil:
		state = stateMade
	case string(have) != text:
		state = stateChanged
	}
	if state != stateKept {
		err = r.write(name, public, []byte(text))
	}
	r.record(name, state, what)
	return err
}

// users creates the missing users and returns all, including those of earlier calls.
func (r *Result) users(w Options) ([]users.User, error) {
	type wanted struct {
		role     users.Role
		profiles []users.Profile
		asked    bool
	}
	want := map[string]wanted{"coordinator": {users.Coordinator, nil, true}, "worker": {users.Worker, nil, true},
		"publisher": {users.Publisher, nil, true}}
	there, err := filepath.Glob(r.path("worker-*/" + credsFile))
	if err != nil {
		return nil, err
	}
	for _, path := range there {
		want[filepath.Base(filepath.Dir(path))] = wanted{role: users.Worker}
	}
	for name, profiles := range w.Workers {
		want["worker-"+name] = wanted{users.Worker, profiles, true}
	}
	names := slices.SortedFunc(maps.Keys(want), func(a, b string) int {
		order := []string{"coordinator", "worker", "publisher"}
		at := func(s string) int { return (slices.Index(order, s) + len(order) + 1) % (len(order) + 1) }
		return cmp.Or(cmp.Compare(at(a), at(b)), strings.Compare(a, b))
	})
	var all []users.User
	for _, name := range names {
		c, err := r.user(name, want[name].role, want[name].profiles, want[name].asked)
		if err != nil {
			return nil, err
		}
		all = append(all, c.User)
		r.Users = append(r.Users, UserInfo{name, c.Role, c.InboxPrefix()})
	}
	return all, nil
}

// credsFile is a user's credential in the folder of its name.
const credsFile = "nats.nk"

func (r *Result) user(name string, role users.Role, profiles []users.Profile, explicit bool) (users.Credential, error) {
	file := name + "/" + credsFile
	text, err := r.read(file)
	if err != nil {
		return users.Credential{}, err
	}
	if text != nil {
		c, err := users.Read(name, text)
		switch {
		case err != nil:
			return c, fmt.Errorf("%s: %w; remove it to create a new one", r.path(file), err)
		case c.Role != role || explicit && !slices.Equal(c.Profiles, profiles):
			return c, fmt.Errorf("%s belongs to a %s with the profiles %v, not %v; remove it to create a new one",
				r.path(file), c.Role, c.Profiles, profiles)
		}
		r.record(file, stateKept, describe(c.User))
		return c, nil
	}
	c, err := users.New(name, role, profiles...)
	if err == nil {
		err = r.write(file, secret, c.File())
	}
	r.record(file, stateMade, describe(c.User))
	return c, err
}

func describe(u users.User) string {
	if len(u.Profiles) > 0 {
		return fmt.Sprintf("NATS user of a %s limited to %v (AO_NATS_CREDS)", u.Role, u.Profiles)
	}
	return fmt.Sprintf("NATS user of a %s (AO_NATS_CREDS)", u.Role)
}

// tokens creates the API tokens. A token exists only in its file; if that is missing, a new token replaces it.
func (r *Result) tokens() error {
	const hashes = "coordinator/tokens"
	_, err := os.Stat(r.path(hashes))
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return err
	}
	state := stateKept
	if missing {
		state = stateMade
	}
	var files []File
	for _, name := range []string{"admin", "run"} {
		file, what := "client/"+name+".token", "API token with scope "+name+" (AO_TOKEN)"
		text, err := r.read(file)
		if err != nil {
			return err
		}
		if text != nil && !missing { // it may have been revoked; do not undo that
			files = append(files, File{file, stateKept, what})
			continue
		}
		if !missing {
			state = stateChanged
			if err := revoke(r.path(hashes), name); err != nil {
				return err
			}
		}
		token, err := access.Create(r.path(hashes), name, []string{name}, time.Time{})
		if err == nil {
			err = r.write(file, secret, []byte(token+"\n"))
		}
		if err != nil {
			return err
		}
		files = append(files, File{file, map[bool]string{true: stateChanged, false: stateMade}[text != nil], what})
	}
	r.record(hashes, state, "hashes of the API tokens (AO_API_TOKENS)")
	r.Files = append(r.Files, files...)
	return nil
}

// revoke removes the hash of a token whose file is lost.
func revoke(hashes, name string) error {
	all, err := access.List(hashes)
	if err != nil || !slices.ContainsFunc(all, func(e access.Entry) bool { return e.Name == name }) {
		return err
	}
	return access.Revoke(hashes, name)
}
