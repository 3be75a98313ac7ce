package dashboard

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"path"
	"strings"
	"testing"
	"testing/fstest"
)

// TestFiles: each embedded file has a type, and compressed it is the same.
func TestFiles(t *testing.T) {
	_ = fs.WalkDir(embedded, "ui", func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(at, "ui/")
		if types[path.Ext(name)] == "" {
			t.Errorf("%s: add the type of %s to types", name, path.Ext(name))
		}
		if name == shell {
			return nil
		}
		f, ok := Asset(Assets() + "/" + name)
		raw, _ := fs.ReadFile(embedded, at)
		if !ok || !bytes.Equal(f.Body, raw) {
			t.Errorf("%s is not what is embedded", name)
		}
		packed := f.Gzip()
		if packed == nil {
			return nil
		}
		r, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		if again, err := io.ReadAll(r); err != nil || !bytes.Equal(again, raw) {
			t.Errorf("%s is another file once it is unpacked: %v", name, err)
		}
		return nil
	})
	if s := string(Shell("n0")); strings.Contains(s, "{{") || !strings.Contains(s, Assets()+"/dist/app.js") ||
		!strings.Contains(s, `content="n0"`) {
		t.Errorf("the shell: %s", s)
	}
}

// TestThePathNamesTheContent: any change of a byte or a name is another path.
func TestThePathNamesTheContent(t *testing.T) {
	seen := map[string]bool{}
	for _, files := range []map[string]string{
		{"index.html": "a", "app.js": "b"}, {"index.html": "x", "app.js": "b"}, {"index.html": "a", "app.js": "x"},
		{"index.html": "a", "lib/app.js": "b"}, {"index.html": "a"}, {"index.html": "a", "app.js": ""},
	} {
		tree := fstest.MapFS{}
		for name, text := range files {
			tree["ui/"+name] = &fstest.MapFile{Data: []byte(text)}
		}
		prefix := prepare(tree).prefix
		if seen[prefix] {
			t.Errorf("%v has the path of other files", files)
		}
		seen[prefix] = true
	}
}
