package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// errNoRegistry means that npm is not installed or could not fetch the packages, so nothing can be rebuilt.
var errNoRegistry = errors.New("the npm packages cannot be fetched")

// missing matches npm's errors for unknown packages or versions.
var missing = regexp.MustCompile(`\b(E404|ETARGET)\b`)

// npm runs the npm client in dir and returns what it prints.
func npm(dir string, args ...string) ([]byte, error) {
	cmd := exec.Command("npm", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil && missing.Match(stderr.Bytes()) {
		return nil, fmt.Errorf("npm %s: %s", args[0], stderr.Bytes())
	}
	if err != nil {
		return nil, fmt.Errorf("%w: npm %s: %w\n%s", errNoRegistry, args[0], err, stderr.Bytes())
	}
	return out, nil
}

// fetch unpacks every package into dir/node_modules. A tarball whose hash differs from the lock's is refused.
func (l Lock) fetch(dir string) error {
	args := []string{"pack", "--json", "--ignore-scripts", "--pack-destination", dir}
	for _, p := range l.Packages {
		args = append(args, p.Name+"@"+p.Version)
	}
	out, err := npm(dir, args...)
	if err != nil {
		return err
	}
	var packed []struct{ Name, Version, Filename string }
	if err := json.Unmarshal(out, &packed); err != nil {
		return fmt.Errorf("output of npm pack: %w", err)
	}
	files := map[string]string{}
	for _, p := range packed {
		files[p.Name+"@"+p.Version] = p.Filename
	}
	for _, p := range l.Packages {
		if err := p.unpack(dir, files[p.Name+"@"+p.Version]); err != nil {
			return fmt.Errorf("%s@%s: %w", p.Name, p.Version, err)
		}
	}
	return nil
}

func (p Package) unpack(dir, file string) (err error) {
	defer caught(&err)
	b := must(os.ReadFile(filepath.Join(dir, filepath.Base(file))))
	if sum := sha512.Sum512(b); base64.StdEncoding.EncodeToString(sum[:]) != p.SHA512 {
		return fmt.Errorf("its SHA-512 is not the one in %s", lockFile)
	}
	z := must(gzip.NewReader(bytes.NewReader(b)))
	root := filepath.Join(dir, "node_modules", filepath.FromSlash(p.Name))
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		// npm's tarballs have one top folder with any name.
		_, name, ok := strings.Cut(h.Name, "/")
		if h.Typeflag != tar.TypeReg || !ok {
			continue
		}
		if !filepath.IsLocal(name) {
			return fmt.Errorf("the tarball has a file outside of its folder: %q", h.Name)
		}
		check(writeFile(filepath.Join(root, name), t))
	}
}

func writeFile(path string, r io.Reader) (err error) {
	defer caught(&err)
	b := must(io.ReadAll(r))
	check(os.MkdirAll(filepath.Dir(path), 0o755))
	return os.WriteFile(path, b, 0o644)
}
