// Bundles makes the vendored modules in coordinator/dashboard/ui/vendor from npm packages, byte for byte the same each
// time, and keeps axe-core, unchanged and compressed, for the tests of scripts/browser. It is a module of its own, outside go.work, since only this needs esbuild:
//
//	cd scripts/bundles
//	GOWORK=off go run . make    # makes the bundles, from the packages in lock.json
//	GOWORK=off go run . check   # makes them and compares: nothing is written
//	GOWORK=off go run . lock    # takes the versions of "wants" in lock.json, resolves them, and makes the bundles
package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Where files are made, as paths from root.
const (
	root   = "../.."
	vendor = "coordinator/dashboard/ui/vendor"
	axe    = "scripts/browser/axe"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run . make | check | lock")
		os.Exit(2)
	}
	err := run(os.Args[1])
	if errors.Is(err, errNoRegistry) {
		fmt.Fprintln(os.Stderr, "bundles:", err)
		os.Exit(3)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bundles:", err)
		os.Exit(1)
	}
}

func run(what string) error {
	lock, err := readLock()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bundles")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if what == "lock" {
		if err := lock.resolve(dir); err != nil {
			return err
		}
	}
	if err := lock.fetch(dir); err != nil {
		return err
	}
	made, bundles, err := build(dir)
	if err != nil {
		return err
	}
	switch what {
	case "check":
		return compare(made, bundles, lock.Bundles)
	case "make", "lock":
		lock.Bundles = bundles
		return errors.Join(write(made), lock.write())
	default:
		return fmt.Errorf("%q is none of make, check, lock", what)
	}
}

// compare says which committed file is not what was made.
func compare(made files, got, want []Bundle) error {
	if !slices.Equal(got, want) {
		return fmt.Errorf("%s names other bundles than its packages make: %v", lockFile, got)
	}
	for _, name := range slices.Sorted(maps.Keys(made)) {
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		same, err := equal(name, b, made[name])
		if err != nil {
			return err
		}
		if !same {
			return fmt.Errorf("%s is not what scripts/bundles makes", name)
		}
	}
	return nil
}

// equal compares two files, compressed ones by what is in them: another Go may compress in another way.
func equal(name string, a, b []byte) (bool, error) {
	if filepath.Ext(name) != ".gz" {
		return bytes.Equal(a, b), nil
	}
	x, err := unpacked(a)
	if err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	y, err := unpacked(b)
	return bytes.Equal(x, y), err
}

func unpacked(b []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// write replaces the folders vendor and axe.
func write(made files) error {
	for _, dir := range []string{vendor, axe} {
		if err := os.RemoveAll(filepath.Join(root, dir)); err != nil {
			return err
		}
	}
	for name, b := range made {
		if err := writeFile(filepath.Join(root, name), bytes.NewReader(b)); err != nil {
			return err
		}
	}
	return nil
}
