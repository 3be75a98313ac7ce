package command

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDashboard: where a login is needed, the browser opens an address that logs it in, and the terminal prints one
// that does not. With --print, or if no browser can be opened, the terminal prints the address that logs in.
func TestDashboard(t *testing.T) {
	for _, tt := range []struct {
		name, me, args, display string
		opens, prints           string
		notes                   string
	}{
		{"no login", `{"login":false}`, "dashboard", ":0", "/ui/", "/ui/", ""},
		{"a login", `{"login":true}`, "dashboard", ":0", "/ui/login#code=1.A.b.me", "/ui/", ""},
		{"printed", `{"login":true}`, "dashboard --print", ":0", "", "/ui/login#code=1.A.b.me", ""},
		{"no screen", `{"login":true}`, "dashboard", "", "", "/ui/login#code=1.A.b.me",
			"cannot open a browser: no display"},
		{"it fails", `{"login":true}`, "dashboard", "fail", "/ui/login#code=1.A.b.me", "/ui/login#code=1.A.b.me",
			"cannot open a browser: xdg-open: exit status 4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			opened := filepath.Join(dir, "opened")
			script := "#!/bin/sh\nprintf %s \"$1\" > '" + opened + "'\n[ \"$DISPLAY\" != fail ] || exit 4\n"
			if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			t.Setenv("DISPLAY", tt.display)
			t.Setenv("WAYLAND_DISPLAY", "")
			codes := 0
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if r.Method+r.URL.Path == "POST/login/codes" {
					codes++
					_, _ = io.WriteString(w, `{"code":"1.A.b.me","expires_in":60}`)
					return
				}
				_, _ = io.WriteString(w, tt.me)
			})
			out, errs, code := ao(t, url, "", strings.Fields(tt.args)...)
			raw, _ := os.ReadFile(opened)
			got := strings.TrimPrefix(string(raw), url)
			if code != exitDone || out != url+tt.prints+"\n" || got != tt.opens || !strings.Contains(errs, tt.notes) ||
				(codes == 1) != strings.Contains(tt.me, "true") {
				t.Errorf("exit %d, printed %q, opened %q, said %q, %d codes", code, out, got, errs, codes)
			}
		})
	}
	if out, _, _ := ao(t, answering(t, 200, `{"login":false}`), "", "dashboard", "--print",
		"--json"); !strings.HasPrefix(out, `{"url":"http://127.0.0.1:`) {
		t.Errorf("for a program: %s", out)
	}
}
