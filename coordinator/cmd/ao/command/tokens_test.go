package command

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ao/coordinator/access"
)

// TestTokens makes a token, sees it listed without itself, uses it, and revokes it.
func TestTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	t.Setenv("AO_API_TOKENS", file)
	out, errs, code := ao(t, "", "", "tokens", "create", "--name", "ci", "--scope", "read,run", "--expires", "30d")
	token := strings.TrimSpace(out)
	if code != exitDone || !strings.HasPrefix(token, "aot_") || !strings.Contains(errs, "store the token now") ||
		strings.Contains(errs, token) {
		t.Fatalf("create: %d %q %q", code, out, errs)
	}
	if out, _, code := ao(t, "", "", "tokens", "create", "--name", "me", "--scope", "admin",
		"--json"); code != exitDone || !strings.Contains(out, `"token":"aot_`) {
		t.Errorf("for programs: %d %q", code, out)
	}
	out, _, code = ao(t, "", "", "tokens", "list")
	if code != exitDone || !strings.Contains(out, "ci    read,run") || strings.Contains(out, "aot_") ||
		!strings.Contains(out, "never") {
		t.Errorf("list: %d\n%s", code, out)
	}
	if out, _, _ := ao(t, "", "", "tokens", "list", "--json"); strings.Count(out, "\n") != 2 ||
		!strings.Contains(out, `{"name":"ci","scopes":["read","run"],"created_at":`) {
		t.Errorf("for programs: %s", out)
	}
	tokens, err := access.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if who, err := tokens.Check(token); err != nil || who.Scope != access.Run {
		t.Errorf("the coordinator sees %+v, %v", who, err)
	}
	if _, errs, code := ao(t, "", "", "tokens", "revoke", "ci"); code != exitDone ||
		!strings.Contains(errs, "ci revoked") {
		t.Errorf("revoke: %d %q", code, errs)
	}
	if _, err := tokens.Check(token); err == nil {
		t.Error("it is good still")
	}
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"tokens revoke ci", exitFailed, `there is no token "ci"`},
		{"tokens create --name me --scope read", exitFailed, `token "me" already exists`},
		{"tokens create --name a/b --scope read", exitUsage, `name "a/b"`},
		{"tokens create --name a --scope all", exitUsage, `scope "all": use read, run or admin`},
		{"tokens create --name a", exitUsage, `missing --scope`},
		{"tokens create --name a --scope read --expires soon", exitUsage,
			`expires "soon": write a duration such as 720h or 30d`},
		{"tokens create --name a --scope read --expires -1h", exitUsage, `write a duration`},
		{"tokens list --file " + file + "x", exitFailed, "'ao tokens create' creates it"},
	} {
		if out, errs, code := ao(t, "", "", strings.Fields(tt.args)...); code != tt.code ||
			!strings.Contains(errs, tt.want) || out != "" {
			t.Errorf("%s: got %d %q %q, want %d %q", tt.args, code, out, errs, tt.code, tt.want)
		}
	}
	if err := os.WriteFile(file, []byte("\nme\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := ao(t, "", "", "tokens", "list"); code != exitFailed || !strings.Contains(errs, file+
		": line 2: 1 words") {
		t.Errorf("a bad line: %d %q", code, errs)
	}
	t.Setenv("AO_API_TOKENS", "")
	if _, errs, code := ao(t, "", "", "tokens", "list"); code != exitUsage ||
		!strings.Contains(errs, "--file or AO_API_TOKENS") {
		t.Errorf("no file: %d %q", code, errs)
	}
}

// TestTokenIsSentToTheCoordinatorOnly: it is sent, and is in no message.
func TestTokenIsSentToTheCoordinatorOnly(t *testing.T) {
	const secret = "aot_SECRET"
	var got string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "application/json")
		switch got {
		case "Bearer " + secret:
			w.WriteHeader(403)
			_, _ = w.Write([]byte(`{"error":"forbidden","message":"no","scope":"run"}`))
		default:
			w.WriteHeader(401)
			_, _ = w.Write([]byte(`{"error":"unauthorized","message":"who?"}`))
		}
	})
	for _, tt := range []struct{ env, flag, sent, want string }{
		{"", "", "", "set AO_TOKEN (or --token) to a token of this coordinator"},
		{secret, "", "Bearer " + secret, "use a token with scope run in AO_TOKEN"},
		{"other", secret, "Bearer " + secret, "use a token with scope run in AO_TOKEN"},
	} {
		t.Setenv("AO_TOKEN", tt.env)
		args := []string{"runs"}
		if tt.flag != "" {
			args = append(args, "--token", tt.flag)
		}
		out, errs, code := ao(t, url, "", args...)
		if got != tt.sent || code != exitFailed || !strings.Contains(errs, tt.want) ||
			strings.Contains(out+errs, secret) {
			t.Errorf("%+v: sent %q, got %d %q %q", tt, got, code, out, errs)
		}
	}
	t.Setenv("AO_TOKEN", secret+"\n")
	if _, errs, code := ao(t, url, "", "runs"); code != exitUsage ||
		!strings.Contains(errs, "has invalid characters") || strings.Contains(errs, secret) {
		t.Errorf("a line's end: %d %q", code, errs)
	}
	t.Setenv("AO_TOKEN", secret)
	if out, errs, _ := ao(t, url, "", "runs", "--help"); strings.Contains(out+errs, secret) {
		t.Error("help shows the token")
	}
}
