// Bundles builds what a browser loads of the dashboard, reproducibly: one file of our own modules
// (coordinator/dashboard/ui/dist) and libraries from npm packages (ui/vendor). It also stores axe-core, unchanged and
// compressed, for the tests of scripts/browser. It is a separate module outside go.work, because only this needs
// esbuild:
//
//	scripts/bundles/app         # bundles our own modules; run it after each change of one
//	cd scripts/bundles
//	GOWORK=off go run . make    # builds all bundles from the packages in lock.json
//	GOWORK=off go run . check   # builds and compares them, writes nothing
//	GOWORK=off go run . lock    # resolves "wants" in lock.json and builds the bundles
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

// Output folders, relative to root.
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
		return checkAll()
	case "make", "lock":
		return makeAll(command == "lock")
	default:
		return fmt.Errorf("unknown command %q; use app, make, check or lock", command)
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

// checkAll compares our own bundle first, which needs no npm package.
func checkAll() (err error) {
	defer caught(&err)
	app := must(bundleApp())
	if err := compare(app); err != nil {
		return fmt.Errorf("%w; run scripts/bundles/app", err)
	}
	lock := must(readLock())
	made, bundles, err := lock.make(false)
	if err != nil {
		return err
	}
	if !slices.Equal(bundles, lock.Bundles) {
		return fmt.Errorf("%s lists other bundles than those built from its packages: %v", lockFile, bundles)
	}
	return compare(made)
}

// makeAll builds the vendored bundles, then ours, which refers to them.
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

// make builds the vendored bundles in a temporary folder.
func (l *Lock) make(resolve bool) (_ files, _ []Bundle, err error) {
	defer caught(&err)
	dir := must(os.MkdirTemp("", "bundles"))
	defer os.RemoveAll(dir)
	if resolve {
		check(l.resolve(dir))
	}
	check(l.fetch(dir))
	return build(dir)
}

// compare returns an error for a committed file that differs from the built one.
func compare(made files) (err error) {
	defer caught(&err)
	for _, name := range slices.Sorted(maps.Keys(made)) {
		b := must(os.ReadFile(filepath.Join(root, name)))
		same := must(equal(name, b, made[name]))
		if !same {
			return fmt.Errorf("%s differs from the output of scripts/bundles", name)
		}
	}
	return nil
}

// equal compares two files; compressed ones by content, because Go versions may compress differently.
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

// write replaces folders with the built files.
func write(made files, folders ...string) (err error) {
	defer caught(&err)
	for _, dir := range folders {
		check(os.RemoveAll(filepath.Join(root, dir)))
	}
	for name, b := range made {
		check(writeFile(filepath.Join(root, name), bytes.NewReader(b)))
	}
	return nil
}
