package dashboard_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ao/coordinator/dashboard"
)

// TestVendored holds the bundles to their lock. scripts/bundles/check makes them anew where npm's packages can be had.
func TestVendored(t *testing.T) {
	var lock struct {
		Bundles []struct{ File, SHA256 string }
	}
	b, err := os.ReadFile("../../scripts/bundles/lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &lock); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, b := range lock.Bundles {
		want[b.File] = b.SHA256
	}
	got := map[string]string{}
	files, err := filepath.Glob("ui/vendor/*.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		got[filepath.Base(f)] = fmt.Sprintf("%x", sha256.Sum256(b))
	}
	if len(want) != 3 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("ui/vendor has\n%v\nthe lock\n%v\nrun: cd scripts/bundles && GOWORK=off go run . make", got, want)
	}
}

// htmlSinks turn text into HTML or code. The bundles have none, and no module of ours may begin with it.
var htmlSinks = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|setHTMLUnsafe|` +
	`parseFromString|createContextualFragment|document\.write|\beval\b|\bnew Function\b|\bFunction\(|\bsrcdoc\s*=`)

// TestNoHTMLSinks reads every module, vendored or ours.
func TestNoHTMLSinks(t *testing.T) {
	n := 0
	err := fs.WalkDir(os.DirFS("ui"), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".js") {
			return err
		}
		n++
		b, err := os.ReadFile(filepath.Join("ui", path))
		if err != nil {
			return err
		}
		for _, at := range htmlSinks.FindAllIndex(b, -1) {
			t.Errorf("ui/%s has %q: …%s…", path, b[at[0]:at[1]], b[max(0, at[0]-60):min(len(b), at[1]+60)])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n < 6 {
		t.Errorf("only %d modules were read", n)
	}
}

// TestBudget bounds what a browser loads: everything uncompressed, and compressed what every page needs.
func TestBudget(t *testing.T) {
	all, every := 0, 0
	for _, pattern := range []string{"index.html", "*.css", "dist/app.js", "vendor/base-*.js", "vendor/editor-*.js",
		"vendor/markdown-*.js"} {
		files, err := filepath.Glob("ui/" + pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no such file, %v", pattern, err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all += len(b)
			if !strings.HasPrefix(pattern, "vendor/") || strings.HasPrefix(pattern, "vendor/base") {
				every += len(packed(t, b))
			}
		}
	}
	if all > 1_200_000 {
		t.Errorf("a browser may load %d bytes, of 1,200,000 at most", all)
	}
	if every > 150_000 {
		t.Errorf("each page loads %d bytes compressed, of 150,000 at most", every)
	}
	if f, ok := dashboard.Asset(dashboard.Assets() + "/dist/app.js"); !ok || len(f.Gzip()) > 110_000 {
		t.Errorf("app.js has %d bytes compressed, of 110,000 at most", len(f.Gzip()))
	}
}

func packed(t *testing.T, b []byte) []byte {
	t.Helper()
	var z bytes.Buffer
	w, err := gzip.NewWriterLevel(&z, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return z.Bytes()
}
