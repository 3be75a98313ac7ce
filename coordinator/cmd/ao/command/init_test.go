package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestInit makes a key ring, shows where everything is and no secret, and says of a second call that nothing was
// changed.
func TestInit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ring")
	out, errs, code := ao(t, "", "", "init", "--dir", dir, "--tls", "--host", "nats,10.0.0.5", "--worker",
		"text=procedural.text,procedural.more")
	if code != exitDone || strings.Contains(errs, "nothing changed") {
		t.Fatalf("%d %q %q", code, out, errs)
	}
	for _, want := range []string{dir + "/worker-text/nats.nk", "AO_NATS_USERS=" + dir + "/nats/users.conf",
		"AO_NATS_CREDS=" + dir + "/coordinator/nats.nk", "AO_NATS_CA=", "AO_API_TOKENS=", "AO_TLS_CERT=",
		"--inbox-prefix _INBOX_U"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in %s", want, out)
		}
	}
	seed, err := os.ReadFile(filepath.Join(dir, "worker/nats.nk"))
	if err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(dir, "client/admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(seed))
	for _, secret := range []string{lines[len(lines)-1], strings.TrimSpace(string(token))} {
		if strings.Contains(out+errs, secret) {
			t.Errorf("a secret is shown: %s", out)
		}
	}
	if out, errs, code := ao(t, "", "", "init", "--dir", dir); code != exitDone ||
		!strings.Contains(errs, "nothing changed") || strings.Contains(out, " made ") {
		t.Errorf("again: %d %q %q", code, out, errs)
	}
	if out, _, code := ao(t, "", "", "init", "--dir", dir, "--json"); code != exitDone ||
		!strings.Contains(out, `{"path":"worker/nats.nk","state":"kept",`) {
		t.Errorf("for programs: %d %q", code, out)
	}
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"init", exitUsage, `missing --dir`},
		{"init --dir " + dir + " --host nats", exitUsage, "add --tls"},
		{"init --dir " + dir + " --tls --host nats:4222", exitUsage, `host "nats:4222"`},
		{"init --dir " + dir + " --worker text", exitUsage, "write NAME=TYPE.PROFILE"},
		{"init --dir " + dir + " --worker a/b=procedural.text", exitUsage, "write NAME=TYPE.PROFILE"},
		{"init --dir " + dir + " --worker a=shell.text", exitUsage, `profile "shell.text": write TYPE.NAME`},
		{"init --dir " + dir + " --worker text=procedural.text", exitFailed, "remove it to create a new one"},
		{"init --dir " + dir + "/nats/users.conf", exitFailed, "not a directory"},
	} {
		if _, errs, code := ao(t, "", "", strings.Fields(tt.args)...); code != tt.code ||
			!strings.Contains(errs, tt.want) {
			t.Errorf("%s: got %d %q, want %d %q", tt.args, code, errs, tt.code, tt.want)
		}
	}
}

// TestInitSaysHowMuchNATSStores: what fits, or what the operator says.
func TestInitSaysHowMuchNATSStores(t *testing.T) {
	dir, data := filepath.Join(t.TempDir(), "ring"), t.TempDir()
	for _, tt := range []struct {
		say  string
		code int
		want string // of what is shown
		file string
	}{
		{"", exitDone, data + "/store.conf", "max_file_store: "},
		{"20GB", exitDone, "storage limit of NATS, 20480 MiB", "max_file_store: 21474836480\n"},
		{"much", exitUsage, `AO_NATS_STORE: size "much"`, "max_file_store: 21474836480\n"},
	} {
		t.Setenv("AO_NATS_STORE", tt.say)
		out, errs, code := ao(t, "", "", "init", "--dir", dir, "--nats-data", data)
		if code != tt.code || !strings.Contains(out+errs, tt.want) {
			t.Errorf("%q: %d %q %q", tt.say, code, out, errs)
		}
		text, err := os.ReadFile(filepath.Join(data, "store.conf"))
		if err != nil || !strings.Contains(string(text), tt.file) {
			t.Errorf("%q: %s, %v", tt.say, text, err)
		}
	}
}

// TestInitMakesTheFolderForBatches: what exists where memory is to be mounted is reported, and so is a typing mistake.
func TestInitMakesTheFolderForBatches(t *testing.T) {
	dir, data := filepath.Join(t.TempDir(), "ring"), t.TempDir()
	at := filepath.Join(data, "jetstream/AO/streams/RUNS/batches")
	out, errs, code := ao(t, "", "", "init", "--dir", dir, "--nats-staging", data)
	if i, err := os.Stat(at); code != exitDone || err != nil || !i.IsDir() || !strings.Contains(out, at) ||
		!strings.Contains(out, "mount memory over it") {
		t.Errorf("%d %q %q, %v", code, out, errs, err)
	}
	if _, errs, code := ao(t, "", "", "init", "--dir", dir, "--nats-staging",
		filepath.Join(data, "none")); code != exitFailed || !strings.Contains(errs, "the data folder of NATS") {
		t.Errorf("%d %q", code, errs)
	}
}
