// Package dashboard contains the dashboard's files, embedded in the program. Their paths contain a hash of all of them,
// so a browser may keep them for ever. Package httpapi serves them.
package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"path"
	"strings"
	"sync"
)

// The dashboard's own modules are in ui/dist/app.js; scripts/bundles/app makes it.
//
//go:embed ui/index.html ui/*.css ui/dist/app.js ui/vendor
var embedded embed.FS

// Root is the path below which every page of the dashboard is.
const Root = "/ui/"

// File is an asset as it is sent. It must not be changed.
type File struct {
	Type string // media type
	ETag string // quoted
	Body []byte
	Gzip func() []byte // the body compressed; nil where that saves nothing. Made when it is first asked for
}

// shell is the page that every deep link gets; assets are all other files.
const shell = "index.html"

// types are the media types of the files that there may be, by the end of their names.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".png": "image/png", ".json": "application/json", ".txt": "text/plain; charset=utf-8",
}

// site is the embedded files, prepared.
type site struct {
	prefix string // of the paths of assets
	shell  string
	files  map[string]File // by name
}

var prepared = sync.OnceValue(func() *site { return prepare(embedded) })

// prepare reads all files below ui, which are embedded: that cannot fail.
func prepare(from fs.FS) *site {
	s := &site{files: map[string]File{}}
	all := sha256.New()
	err := fs.WalkDir(from, "ui", func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(from, at)
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(at, "ui/")
		sum := sha256.Sum256(raw)
		all.Write([]byte(name + "\x00"))
		all.Write(sum[:])
		if name == shell {
			s.shell = string(raw)
			return nil
		}
		s.files[name] = File{
			Type: types[path.Ext(name)], ETag: `"` + hex.EncodeToString(sum[:12]) + `"`, Body: raw,
			Gzip: sync.OnceValue(func() []byte { return compressed(raw) }),
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	s.prefix = Root + "assets/" + hex.EncodeToString(all.Sum(nil)[:8])
	s.shell = strings.ReplaceAll(s.shell, "{{assets}}", s.prefix)
	return s
}

// compressed returns the body as small as gzip makes it; nil where it is no smaller.
func compressed(raw []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // a level that exists
	_, _ = w.Write(raw)                                   // a buffer takes all
	_ = w.Close()
	if b.Len() >= len(raw) {
		return nil
	}
	return b.Bytes()
}

// Assets returns the path below which the assets are. It changes with any of them, so what is below it never changes.
func Assets() string { return prepared().prefix }

// Asset returns the file that a path below Root names; false: it is none, so the path is a page's.
func Asset(at string) (f File, found bool) {
	s := prepared()
	name, below := strings.CutPrefix(at, s.prefix+"/")
	if !below {
		return File{}, false
	}
	f, found = s.files[name]
	return f, found
}

// IsAsset says that a path is below those of assets, of this version or another.
func IsAsset(at string) bool { return strings.HasPrefix(at, Root+"assets/") }

// Shell returns the page that answers every path of a page. The nonce allows the style elements of this answer.
func Shell(nonce string) []byte {
	return []byte(strings.ReplaceAll(prepared().shell, "{{nonce}}", nonce))
}
