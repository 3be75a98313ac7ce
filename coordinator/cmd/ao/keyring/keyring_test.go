package keyring

import (
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"ao/coordinator/access"
	"ao/nats/users"
)

// contents is every file below a folder, with its mode.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		info, _ := d.Info()
		name, _ := filepath.Rel(dir, path)
		all[name] = info.Mode().String() + "\n" + string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func certOf(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var now = time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)

func TestMakeKeepsExistingFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ring")
	w := Options{Dir: dir, TLS: true, Hosts: []string{"nats", "10.0.0.5"}, Now: now,
		Workers: map[string][]users.Profile{"text": {{Type: "procedural", Name: "text"}}}}
	r, err := Make(w)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Changed() || !r.TLS || len(r.Users) != 4 {
		t.Errorf("first: %+v", r)
	}
	first := contents(t, dir)
	for name, text := range first {
		open := strings.HasSuffix(name, ".crt") || name == "nats/users.conf"
		if got := strings.HasPrefix(text, "-rw-r--r--"); got != open || !open &&
			!strings.HasPrefix(text, "-rw-------") {
			t.Errorf("%s has the mode %s", name, text[:10])
		}
	}
	for _, next := range []Options{w, {Dir: dir, Now: now}, {Dir: dir, TLS: true, Hosts: []string{"nats"},
		Now: now.AddDate(1, 0, 0)}} {
		r, err := Make(next)
		if err != nil || r.Changed() {
			t.Errorf("again: %+v, %v", r, err)
		}
		if second := contents(t, dir); !reflect.DeepEqual(first, second) {
			t.Error("files changed")
		}
	}
	for _, name := range []string{"admin", "run"} {
		text := first["client/"+name+".token"]
		tokens, err := access.Load(filepath.Join(dir, "coordinator/tokens"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if who, err := tokens.Check(strings.TrimSpace(text[strings.Index(text, "\n"):])); err != nil ||
			who.Name != name {
			t.Errorf("token %s: %+v, %v", name, who, err)
		}
	}
	roots := x509.NewCertPool()
	roots.AddCert(certOf(t, filepath.Join(dir, "worker/ca.crt")))
	for _, host := range []string{"localhost", "127.0.0.1", "::1", "nats", "10.0.0.5"} {
		for _, file := range []string{"nats/server.crt", "coordinator/http.crt"} {
			if _, err := certOf(t, filepath.Join(dir, file)).Verify(x509.VerifyOptions{DNSName: host, Roots: roots,
				CurrentTime: now}); err != nil {
				t.Errorf("%s for %s: %v", file, host, err)
			}
		}
	}
}

func TestMakeRestoresMissingFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := Make(Options{Dir: dir, Now: now}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		gone    []string
		changed []string // beside what is gone
	}{
		{[]string{"worker/nats.nk"}, []string{"nats/users.conf"}},
		{[]string{"nats/users.conf"}, nil},
		{[]string{"client/run.token"}, []string{"coordinator/tokens"}},
		{[]string{"coordinator/tokens"}, []string{"client/admin.token", "client/run.token"}},
		{[]string{"coordinator/tokens", "client/admin.token", "client/run.token"}, nil},
	} {
		t.Run(strings.Join(tt.gone, " "), func(t *testing.T) {
			before := contents(t, dir)
			for _, name := range tt.gone {
				if err := os.Remove(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			r, err := Make(Options{Dir: dir, Now: now})
			if err != nil || !r.Changed() {
				t.Fatal(r, err)
			}
			after := contents(t, dir)
			for name := range before {
				allowed := strings.Contains(strings.Join(append(tt.gone, tt.changed...), " "), name)
				if (before[name] != after[name]) && !allowed {
					t.Errorf("%s was changed", name)
				}
				if after[name] == "" {
					t.Errorf("%s is not there", name)
				}
			}
			tokens, err := access.Load(filepath.Join(dir, "coordinator/tokens"), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"admin", "run"} {
				text, _ := os.ReadFile(filepath.Join(dir, "client", name+".token"))
				if who, err := tokens.Check(strings.TrimSpace(string(text))); err != nil || who.Name != name {
					t.Errorf("token %s: %v", name, err)
				}
			}
			if r, err := Make(Options{Dir: dir, Now: now}); err != nil || r.Changed() {
				t.Errorf("once more: %+v, %v", r, err)
			}
		})
	}
}

// TestMakeExtendsAnOlderRing: TLS and workers are added to a ring that has none, certificates are renewed in time, and
// no file silently changes its owner.
func TestMakeExtendsAnOlderRing(t *testing.T) {
	dir := t.TempDir()
	make := func(w Options) *Result {
		t.Helper()
		w.Dir = dir
		if w.Now.IsZero() {
			w.Now = now
		}
		r, err := Make(w)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	states := func(r *Result) (changed []string) {
		for _, f := range r.Files {
			if f.State == stateChanged {
				changed = append(changed, f.Path)
			}
		}
		return changed
	}
	make(Options{})
	if got := states(make(Options{TLS: true})); !reflect.DeepEqual(got, []string{"nats/users.conf"}) {
		t.Errorf("TLS: %v", got)
	}
	if got := states(
		make(Options{Workers: map[string][]users.Profile{
			"mind": {{Type: "autonomous", Name: "mind"}}}})); !reflect.DeepEqual(got, []string{"nats/users.conf"}) {
		t.Errorf("a worker: %v", got)
	}
	if got := states(make(Options{TLS: true, Hosts: []string{"nats"}})); !reflect.DeepEqual(got,
		[]string{"nats/server.crt", "coordinator/http.crt"}) {
		t.Errorf("a host: %v", got)
	}
	late := now.AddDate(2, 0, -20)
	if got := states(make(Options{Now: late})); !reflect.DeepEqual(got,
		[]string{"nats/server.crt", "coordinator/http.crt"}) {
		t.Errorf("renewal: %v", got)
	}
	if c := certOf(t, filepath.Join(dir, "nats/server.crt")); c.VerifyHostname("nats") != nil ||
		c.NotAfter.Before(late.AddDate(1, 0, 0)) {
		t.Errorf("renewed: %v until %v", c.DNSNames, c.NotAfter)
	}
	for _, tt := range []struct {
		name, file, text string
		w                Options
		want             string
	}{
		{"other profiles", "", "",
			Options{Workers: map[string][]users.Profile{"mind": {{Type: "autonomous", Name: "other"}}}},
			"worker-mind/nats.nk"},
		{"no seed", "worker/nats.nk", "# role: worker\n", Options{}, "remove it to create a new one"},
		{"another key", "nats/server.key", "", Options{}, "nats/server.crt and .key"},
		{"an old authority", "", "", Options{Now: now.AddDate(10, 0, -5)}, "remove the folder ca"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.file != "" {
				path := filepath.Join(dir, tt.file)
				old, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				os.WriteFile(path, []byte(tt.text), 0o600)
				defer os.WriteFile(path, old, 0o600)
			}
			tt.w.Dir = dir
			if tt.w.Now.IsZero() {
				tt.w.Now = now
			}
			if _, err := Make(tt.w); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want it to say %q", err, tt.want)
			}
		})
	}
}

// TestAFolderOfAnOlderVersion: 'ao init' renews the rights in it and keeps the keys, and touches nothing that it
// would lose. The folder was made by the program of commit 073a48e.
func TestAFolderOfAnOlderVersion(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../../../nats/users/testdata/keys")); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	const conf = "nats/users.conf"
	text := before[conf][strings.Index(before[conf], "\n")+1:]
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, conf), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(strings.Replace(text, "jetstream: enabled", "jetstream: {max_file: 1G}", 1))
	changed := contents(t, dir)
	if _, err := Make(Options{Dir: dir, Now: now}); err == nil || !strings.Contains(err.Error(), "nats/users.conf") ||
		!strings.Contains(err.Error(), "jetstream: enabled") {
		t.Errorf("changed by hand: %v", err)
	}
	if got := contents(t, dir); got[conf] != changed[conf] {
		t.Errorf("what could not be kept was written over:\n%s", got[conf])
	}
	write(text + "system_account: SYS\n")
	for _, want := range []string{stateChanged, stateKept} {
		r, err := Make(Options{Dir: dir, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range r.Files {
			if f.Path == conf && f.State != want || strings.HasSuffix(f.Path, ".nk") && f.State != stateKept {
				t.Errorf("%s is %s", f.Path, f.State)
			}
		}
	}
	after := contents(t, dir)
	if got := after[conf]; !users.Current(got) || !strings.HasSuffix(got, "}\nsystem_account: SYS\n") {
		t.Errorf("renewed:\n%s", got)
	}
	for name := range before {
		if name != conf && after[name] != before[name] {
			t.Errorf("%s was changed", name)
		}
	}
}
