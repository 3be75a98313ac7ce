// Package keyring makes what a deployment needs to keep strangers out, once: the users of NATS, the API's first tokens, and where it
// is wanted an authority with certificates. What is there already stays as it is. It also prepares the data folders of NATS.
//
// Each program has a folder of its own, with all that it has to read and nothing of another's.
package keyring

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"ao/coordinator/access"
	"ao/nats/users"
)

// Options is what there is to be.
type Options struct {
	Dir     string                     // made where it is missing
	Workers map[string][]users.Profile // by name: workers that are confined to profiles, in folders worker-<name>
	TLS     bool
	Hosts   []string  // names and addresses of the servers, beside localhost; none: as before
	Now     time.Time // default time.Now

	NATSData []string // data folders of NATS servers: each is told how much to store at most
	Store    int64    // so many bytes; 0: what fits on its disk
	Staging  []string // data folders of single NATS servers: each gets the folder over which memory is mounted for batches
}

// The states of a file.
const (
	Made    = "made"
	Kept    = "kept"
	Changed = "changed" // made anew, since what it is made of has changed
)

// File is one that is there now.
type File struct {
	Path  string `json:"path"` // below the folder
	State string `json:"state"`
	What  string `json:"what"`
}

// Result is what there is.
type Result struct {
	Dir   string     `json:"dir"`
	Files []File     `json:"files"`
	TLS   bool       `json:"tls"`
	Users []UserInfo `json:"nats_users"`
}

// UserInfo is a user of NATS, without the secret.
type UserInfo struct {
	Name  string     `json:"name"`
	Role  users.Role `json:"role"`
	Inbox string     `json:"inbox_prefix"`
}

// Changed tells whether anything was made, or made anew.
func (r *Result) Changed() bool {
	return slices.ContainsFunc(r.Files, func(f File) bool { return f.State != Kept })
}

// Make makes what is missing. A second call changes nothing; one that was cut off is completed by the next.
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

// permissions renews the configuration of NATS in its place: what an operator added to it stays.
func (r *Result) permissions(all []users.User, tls users.TLS) error {
	const name = "nats/users.conf"
	text := users.Config(all, tls)
	have, err := r.read(name)
	if err != nil {
		return err
	}
	if have != nil {
		if text, err = users.Renew(string(have), all, tls); err != nil {
			return fmt.Errorf("%s: %w", r.path(name), err)
		}
	}
	return r.writeDerived(name, "who may do what at NATS: AO_NATS_USERS, or included by the server's configuration", text)
}

// path is where a file is.
func (r *Result) path(name string) string { return filepath.Join(r.Dir, filepath.FromSlash(name)) }

func (r *Result) record(name, state, what string) {
	r.Files = append(r.Files, File{name, state, what})
}

// read gives a file's text; nil where there is none.
func (r *Result) read(name string) ([]byte, error) {
	text, err := os.ReadFile(r.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && text == nil {
		text = []byte{}
	}
	return text, err
}

// The modes of what is secret and of what is not.
const (
	secret = 0o600
	public = 0o644
)

// write puts a file in its place, whole or not at all.
func (r *Result) write(name string, mode fs.FileMode, text []byte) error {
	path := r.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // not there any more when all went well
	_, err = f.Write(text)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// writeDerived has a file that is made of others say what it should, and no secrets.
func (r *Result) writeDerived(name, what, text string) error {
	have, err := r.read(name)
	state := Kept
	switch {
	case err != nil:
		return err
	case have == nil:
		state = Made
	case string(have) != text:
		state = Changed
	}
	if state != Kept {
		err = r.write(name, public, []byte(text))
	}
	r.record(name, state, what)
	return err
}

// users makes the users that are missing, and gives all: those of earlier calls too.
func (r *Result) users(w Options) ([]users.User, error) {
	type wanted struct {
		role     users.Role
		profiles []users.Profile
		asked    bool
	}
	want := map[string]wanted{"coordinator": {users.Coordinator, nil, true}, "worker": {users.Worker, nil, true}, "publisher": {users.Publisher, nil, true}}
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
	var names []string
	for name := range want {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
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

// credsFile is a user's file in the folder of its name.
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
			return c, fmt.Errorf("%s: %w; to have it made anew remove it", r.path(file), err)
		case c.Role != role || explicit && !slices.Equal(c.Profiles, profiles):
			return c, fmt.Errorf("%s is the file of a %s with the profiles %v, not %v; to have it made anew remove it", r.path(file), c.Role, c.Profiles, profiles)
		}
		r.record(file, Kept, describe(c.User))
		return c, nil
	}
	c, err := users.New(name, role, profiles...)
	if err == nil {
		err = r.write(file, secret, c.File())
	}
	r.record(file, Made, describe(c.User))
	return c, err
}

func describe(u users.User) string {
	if len(u.Profiles) > 0 {
		return fmt.Sprintf("NATS user of a %s that runs %v only (AO_NATS_CREDS)", u.Role, u.Profiles)
	}
	return fmt.Sprintf("NATS user of a %s (AO_NATS_CREDS)", u.Role)
}

// tokens makes the API's tokens. A token is in its file and nowhere else; where that is missing another is made in its place.
func (r *Result) tokens() error {
	const hashes = "coordinator/tokens"
	_, err := os.Stat(r.path(hashes))
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return err
	}
	state := Kept
	if missing {
		state = Made
	}
	var files []File
	for _, name := range []string{"admin", "run"} {
		file, what := "client/"+name+".token", "API token with the scope "+name+" (AO_TOKEN)"
		text, err := r.read(file)
		if err != nil {
			return err
		}
		if text != nil && !missing { // perhaps revoked since: that is not ours to undo
			files = append(files, File{file, Kept, what})
			continue
		}
		if !missing {
			state = Changed
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
		files = append(files, File{file, map[bool]string{true: Changed, false: Made}[text != nil], what})
	}
	r.record(hashes, state, "hashes of the API tokens (AO_API_TOKENS)")
	r.Files = append(r.Files, files...)
	return nil
}

// revoke takes out the hash of a token that nobody has.
func revoke(hashes, name string) error {
	all, err := access.List(hashes)
	if err != nil || !slices.ContainsFunc(all, func(e access.Entry) bool { return e.Name == name }) {
		return err
	}
	return access.Revoke(hashes, name)
}
