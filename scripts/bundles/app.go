package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// The dashboard's own modules, the file bundled from them, and the hashes of its sources.
const (
	ui      = "coordinator/dashboard/ui"
	dist    = ui + "/dist"
	appFile = dist + "/app.js"
	sources = dist + "/sources.txt"
)

// vendoredIn matches the import of a vendored bundle.
var vendoredIn = regexp.MustCompile(`"\./(vendor/[a-z]+-[0-9a-f]+\.js)"`)

// bundleApp bundles the dashboard's own modules into one. It is not minified, for small diffs and readable stack
// traces. The vendored bundles stay separate files, loaded on first use.
func bundleApp() (_ files, err error) {
	defer caught(&err)
	dir := must(filepath.Abs(filepath.Join(root, ui)))
	r := api.Build(api.BuildOptions{
		EntryPoints:   []string{"app.js"},
		AbsWorkingDir: dir,
		Outfile:       "dist/app.js",
		Bundle:        true,
		Write:         false,
		Format:        api.FormatESModule,
		Platform:      api.PlatformBrowser,
		Target:        api.ES2022,
		LegalComments: api.LegalCommentsNone,
		Charset:       api.CharsetUTF8,
		Metafile:      true,
		Banner: map[string]string{
			"js": "// Made by scripts/bundles/app of the modules in this folder's parent. Change " +
				"these, not this file."},
		Plugins: []api.Plugin{{Name: "vendored", Setup: func(b api.PluginBuild) {
			b.OnResolve(api.OnResolveOptions{Filter: `\.js$`}, vendored)
		}}},
	})
	if len(r.Errors) > 0 {
		e := r.Errors[0]
		if e.Location != nil {
			return nil, fmt.Errorf("%s:%d: %s", e.Location.File, e.Location.Line, e.Text)
		}
		return nil, fmt.Errorf("esbuild: %s", e.Text)
	}
	list := must(hashes(dir))
	check(allUsed(list, r.Metafile))
	return files{appFile: r.OutputFiles[0].Contents, sources: list.text()}, nil
}

// vendored excludes vendored bundles. An import of a module that re-exports one is replaced by that bundle.
func vendored(args api.OnResolveArgs) (api.OnResolveResult, error) {
	if strings.HasPrefix(args.Path, "./vendor/") {
		return api.OnResolveResult{Path: "." + args.Path, External: true}, nil
	}
	if args.Kind != api.ResolveJSDynamicImport {
		return api.OnResolveResult{}, nil
	}
	b, err := os.ReadFile(filepath.Join(args.ResolveDir, args.Path))
	if err != nil {
		return api.OnResolveResult{}, err
	}
	found := vendoredIn.FindSubmatch(b)
	if found == nil {
		return api.OnResolveResult{},
			fmt.Errorf("import(%q): import it statically; only vendored bundles are loaded later", args.Path)
	}
	return api.OnResolveResult{Path: "../" + string(found[1]), External: true}, nil
}

// source is a module and the start of its SHA-256. One line for each keeps changes of two modules mergeable.
type source struct{ path, sum string }

type sourceList []source

// hashes hashes all modules below dir except generated ones.
func hashes(dir string) (sourceList, error) {
	var all sourceList
	err := fs.WalkDir(os.DirFS(dir), ".", func(at string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (at == "dist" || at == "vendor"):
			return fs.SkipDir
		case d.IsDir() || path.Ext(at) != ".js":
			return nil
		}
		b, err := os.ReadFile(filepath.Join(dir, at))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(b)
		all = append(all, source{at, fmt.Sprintf("%x", sum[:8])})
		return nil
	})
	slices.SortFunc(all, func(a, b source) int { return strings.Compare(a.path, b.path) })
	return all, err
}

func (l sourceList) text() []byte {
	var b bytes.Buffer
	for _, s := range l {
		fmt.Fprintf(&b, "%s %s\n", s.sum, s.path)
	}
	return b.Bytes()
}

// allUsed returns an error for a module that nothing imports.
func allUsed(list sourceList, metafile string) error {
	var meta struct{ Inputs map[string]struct{} }
	if err := json.Unmarshal([]byte(metafile), &meta); err != nil {
		return err
	}
	for _, s := range list {
		if _, used := meta.Inputs[s.path]; !used && !slices.Contains([]string{"editor.js", "markdown.js"}, s.path) {
			return fmt.Errorf("%s/%s: no module imports it", ui, s.path)
		}
	}
	return nil
}
