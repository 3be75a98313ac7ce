// Bundles makes what a browser loads of the dashboard, byte for byte the same each time: one file of our own modules
// (coordinator/dashboard/ui/dist), and libraries from npm packages (ui/vendor). It keeps axe-core, unchanged and
// compressed, for the tests of scripts/browser. It is a module of its own, outside go.work, since only this needs
// esbuild:
//
//	scripts/bundles/app         # bundles our own modules: after each change of one
//	cd scripts/bundles
//	GOWORK=off go run . make    # makes all bundles, from the packages in lock.json
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
		fmt.Fprintln(os.Stderr, "usage: go run . app | make | check | lock")
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

func run(command string) error {
	switch command {
	case "app":
		return makeApp()
	case "check":
		return check()
	case "make", "lock":
		return makeAll(command == "lock")
	default:
		return fmt.Errorf("%q is none of app, make, check, lock", command)
	}
}

// makeApp bundles our own modules.
func makeApp() error {
	app, err := bundleApp()
	if err != nil {
		return err
	}
	return write(app, dist)
}

// check compares our own bundle first: that needs no npm package.
func check() error {
	app, err := bundleApp()
	if err != nil {
		return err
	}
	if err := compare(app); err != nil {
		return fmt.Errorf("%w; run scripts/bundles/app", err)
	}
	lock, err := readLock()
	if err != nil {
		return err
	}
	made, bundles, err := lock.make(false)
	if err != nil {
		return err
	}
	if !slices.Equal(bundles, lock.Bundles) {
		return fmt.Errorf("%s names other bundles than its packages make: %v", lockFile, bundles)
	}
	return compare(made)
}

// makeAll makes the vendored bundles, and then ours, which names them.
func makeAll(resolve bool) error {
	lock, err := readLock()
	if err != nil {
		return err
	}
	made, bundles, err := lock.make(resolve)
	if err != nil {
		return err
	}
	lock.Bundles = bundles
	return errors.Join(write(made, vendor, axe), lock.write(), makeApp())
}

// make builds the vendored bundles in a folder of its own.
func (l *Lock) make(resolve bool) (files, []Bundle, error) {
	dir, err := os.MkdirTemp("", "bundles")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	if resolve {
		if err := l.resolve(dir); err != nil {
			return nil, nil, err
		}
	}
	if err := l.fetch(dir); err != nil {
		return nil, nil, err
	}
	return build(dir)
}

// compare says which committed file is not what was made.
func compare(made files) error {
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

// write replaces folders by what was made.
func write(made files, folders ...string) error {
	for _, dir := range folders {
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
