package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// patches remove from Preact everything that writes HTML text into the page: dangerouslySetInnerHTML, and properties
// such as innerHTML. Each text must occur exactly once, so that another version of Preact is reviewed.
var patches = []struct{ old, new string }{
	{`"dangerouslySetInnerHTML"==s?y=k:`, ``},
	{`"dangerouslySetInnerHTML"==s?h=k:`, ``},
	{`h?(l||y&&(h.__html==y.__html||h.__html==t.innerHTML)||(t.innerHTML=h.__html),r.__k=[]):(y&&`, `h?0:(y&&`},
	{`&&"popover"!=t&&t in n)`, `&&"popover"!=t&&!/HTML$|^srcdoc$/.test(t)&&t in n)`},
}

func patched(args api.OnLoadArgs) (api.OnLoadResult, error) {
	b, err := os.ReadFile(args.Path)
	if err != nil {
		return api.OnLoadResult{}, err
	}
	s := string(b)
	for _, p := range patches {
		if n := strings.Count(s, p.old); n != 1 {
			return api.OnLoadResult{}, fmt.Errorf("preact must contain this once, got %d times: %s", n, p.old)
		}
		s = strings.Replace(s, p.old, p.new, 1)
	}
	return api.OnLoadResult{Contents: &s, Loader: api.LoaderJS}, nil
}

// files are the built files by their paths from root. base.js, editor.js and markdown.js re-export the bundles, so
// that no page needs to know a hash.
type files map[string][]byte

// build bundles entries/ with the packages in dir/node_modules.
func build(dir string) (_ files, _ []Bundle, err error) {
	defer caught(&err)
	made, notices := files{}, map[string][]byte{}
	var bundles []Bundle
	for _, name := range []string{"base", "editor", "markdown"} {
		out, exports, inputs, err := bundle(dir, name)
		if err != nil {
			return nil, nil, fmt.Errorf("bundle %s: %w", name, err)
		}
		sum := sha256.Sum256(out)
		b := Bundle{File: fmt.Sprintf("%s-%x.js", name, sum[:5]), SHA256: fmt.Sprintf("%x", sum)}
		bundles = append(bundles, b)
		made[vendor+"/"+b.File] = out
		made[path.Join(ui, name+".js")] = reexport(b.File, exports)
		for _, in := range inputs {
			check(notice(dir, in, notices))
		}
	}
	made[vendor+"/LICENSES.txt"] = licenses(notices)
	for _, name := range []string{"axe.min.js", "LICENSE", "LICENSE-3RD-PARTY.txt"} {
		b := must(os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", name)))
		if path.Ext(name) != ".js" {
			made[axe+"/"+name] = b
		} else {
			made[axe+"/"+name+".gz"] = must(packed(b))
		}
	}
	return made, bundles, nil
}

// packed compresses b, so that text searches in the tree do not find it.
func packed(b []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(b)
	err = errors.Join(err, w.Close())
	return out.Bytes(), err
}

// reexport returns a module that re-exports a vendored bundle.
func reexport(file string, names []string) []byte {
	return fmt.Appendf(nil, "// Made by scripts/bundles.\nexport {\n  %s,\n} from \"./vendor/%s\";\n",
		strings.Join(names, ",\n  "), file)
}

// bundle builds one file. inputs are the paths of its package files below dir.
func bundle(dir, name string) (out []byte, exports, inputs []string, err error) {
	defer caught(&err)
	entry := must(os.ReadFile(filepath.Join("entries", name+".js")))
	r := api.Build(api.BuildOptions{
		Stdin:         &api.StdinOptions{Contents: string(entry), ResolveDir: dir, Sourcefile: name + ".js"},
		AbsWorkingDir: dir,
		Bundle:        true,
		Write:         false,
		Format:        api.FormatESModule,
		// Neutral and "worker", because a "browser" variant may need the DOM: decode-named-character-reference uses
		// innerHTML.
		Platform:          api.PlatformNeutral,
		MainFields:        []string{"module", "main"},
		Conditions:        []string{"worker"},
		Target:            api.ES2022,
		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		MinifySyntax:      true,
		LegalComments:     api.LegalCommentsNone, // they are in LICENSES.txt
		Charset:           api.CharsetASCII,
		Metafile:          true,
		Plugins: []api.Plugin{{Name: "patches", Setup: func(b api.PluginBuild) {
			b.OnLoad(api.OnLoadOptions{Filter: `[\\/]preact[\\/]dist[\\/]preact\.mjs$`}, patched)
		}}},
	})
	if len(r.Errors) > 0 {
		return nil, nil, nil, fmt.Errorf("esbuild: %s", r.Errors[0].Text)
	}
	var meta struct {
		Outputs map[string]struct {
			Exports []string
			Inputs  map[string]struct{ BytesInOutput int }
		}
	}
	check(json.Unmarshal([]byte(r.Metafile), &meta))
	for _, o := range meta.Outputs {
		exports = slices.Sorted(slices.Values(o.Exports))
		for input, in := range o.Inputs {
			if in.BytesInOutput > 0 && strings.HasPrefix(input, "node_modules/") {
				inputs = append(inputs, input)
			}
		}
	}
	return r.OutputFiles[0].Contents, exports, inputs, nil
}

// notice adds the licence of the package that input is of.
func notice(dir, input string, notices map[string][]byte) error {
	parts := strings.SplitN(strings.TrimPrefix(input, "node_modules/"), "/", 3)
	name := parts[0]
	if strings.HasPrefix(name, "@") {
		name += "/" + parts[1]
	}
	if notices[name] != nil {
		return nil
	}
	root := filepath.Join(dir, "node_modules", name)
	for _, file := range []string{"LICENSE", "license", "LICENSE.md", "LICENSE.txt"} {
		if b, err := os.ReadFile(filepath.Join(root, file)); err == nil {
			notices[name] = b
			return nil
		}
	}
	return fmt.Errorf("%s has no file LICENSE", name)
}

func licenses(notices map[string][]byte) []byte {
	var b bytes.Buffer
	b.WriteString("What the files in this folder contain of others, and on what terms. Made by scripts/bundles.\n")
	for _, name := range slices.Sorted(maps.Keys(notices)) {
		fmt.Fprintf(&b, "\n==== %s\n\n%s\n", name, bytes.TrimSpace(notices[name]))
	}
	return b.Bytes()
}
