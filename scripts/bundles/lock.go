package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const lockFile = "lock.json"

// Lock lists the inputs of the bundles. The version of esbuild is in go.mod.
type Lock struct {
	Wants    map[string]string `json:"wants"`    // packages imported by entries/, and axe-core, with exact versions
	Packages []Package         `json:"packages"` // these and their dependencies, by name
	Bundles  []Bundle          `json:"bundles"`  // the bundles built from them
}

// Package is one tarball of the npm registry. SHA512 is base64, as npm writes it.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	SHA512  string `json:"sha512"`
}

// Bundle is one file in coordinator/dashboard/ui/vendor.
type Bundle struct {
	File   string `json:"file"`
	SHA256 string `json:"sha256"` // hex
}

func readLock() (Lock, error) {
	var l Lock
	b, err := os.ReadFile(lockFile)
	if err != nil {
		return l, err
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return l, fmt.Errorf("%s: %w", lockFile, err)
	}
	return l, nil
}

func (l Lock) write() error {
	b, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(lockFile, append(b, '\n'), 0o644)
}

// resolve asks npm for the dependencies of l.Wants and records versions and hashes. No package code is run.
func (l *Lock) resolve(dir string) (err error) {
	defer caught(&err)
	b := must(json.Marshal(map[string]any{"name": "bundles", "private": true, "dependencies": l.Wants}))
	check(os.WriteFile(filepath.Join(dir, "package.json"), b, 0o644))
	args := []string{"install", "--package-lock-only", "--ignore-scripts", "--no-audit", "--no-fund"}
	must(npm(dir, args...))
	b = must(os.ReadFile(filepath.Join(dir, "package-lock.json")))
	l.Packages, err = packagesOf(b)
	return err
}

// packagesOf reads a package-lock.json. Two versions of a package are refused: the bundles need a flat folder.
func packagesOf(lock []byte) ([]Package, error) {
	var got struct {
		Packages map[string]struct {
			Version   string `json:"version"`
			Integrity string `json:"integrity"`
		} `json:"packages"`
	}
	if err := json.Unmarshal(lock, &got); err != nil {
		return nil, fmt.Errorf("package-lock.json: %w", err)
	}
	var all []Package
	for path, p := range got.Packages {
		name, ok := strings.CutPrefix(path, "node_modules/")
		if path == "" || strings.HasPrefix(name, "@types/") {
			continue // the root, or types, which no bundle needs
		}
		if !ok || strings.Contains(name, "/node_modules/") {
			return nil, fmt.Errorf("%s: a second version of a package; change wants in %s", path, lockFile)
		}
		sum, ok := strings.CutPrefix(p.Integrity, "sha512-")
		if !ok {
			return nil, fmt.Errorf("%s: its hash %q is no SHA-512", path, p.Integrity)
		}
		all = append(all, Package{Name: name, Version: p.Version, SHA512: sum})
	}
	slices.SortFunc(all, func(a, b Package) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}
