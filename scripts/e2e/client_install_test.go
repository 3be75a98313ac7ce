package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// clients are the libraries of shared/clients. install makes one available as its users do, or skips the test where
// its tools are missing. It returns a function that makes a program's text runnable.
var clients = []struct {
	language string
	install  func(*testing.T) func(*testing.T, string) []string
}{
	{"go", installGo},
	{"python", installPython},
	{"typescript", installTypescript},
}

// clientCommand runs a client's program as a caller of the stack.
func clientCommand(t *testing.T, s *stack, args []string, more ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), args[0], append(args[1:len(args):len(args)], more...)...)
	c.Env = append(os.Environ(), "AO_URL="+s.url, "AO_TOKEN="+s.token)
	return c
}

// installGo requires the client from an empty module, with a replacement in place of its public path.
func installGo(*testing.T) func(*testing.T, string) []string {
	return func(t *testing.T, text string) []string {
		t.Helper()
		dir := t.TempDir()
		const module = "ao/shared/clients/go"
		writeFile(t, filepath.Join(dir, "main.go"), text)
		writeFile(t, filepath.Join(dir, "go.mod"), "module example\n\ngo 1.24\n\nrequire "+module+
			" v0.0.0\n\nreplace "+module+" => "+clientFolder("go")+"\n")
		runCommand(t, dir, "env", "GOWORK=off", "go", "build", "-o", "program", ".") // 'go run' changes the exit code
		return []string{filepath.Join(dir, "program")}
	}
}

// installPython builds the package with setuptools, as pip does, or takes its folder. Programs see the
// standard library and the client only.
func installPython(t *testing.T) func(*testing.T, string) []string {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("SKIPPED: there is no python3 here")
	}
	folder := clientFolder("python")
	if exec.Command("python3", "-c", "import setuptools").Run() == nil {
		source := copyFolder(t, folder)
		folder = t.TempDir()
		runCommand(t, source, "python3", "-c", "import setuptools; setuptools.setup()", "-q", "build", "--build-lib",
			folder)
		if _, err := os.Stat(filepath.Join(folder, "ao_client", "py.typed")); err != nil {
			t.Errorf("the package is not marked as typed: %v", err)
		}
	} else {
		t.Log("NOT PACKAGED: python3 has no setuptools")
	}
	return func(t *testing.T, text string) []string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "program.py")
		writeFile(t, path, text)
		return []string{"env", "PYTHONPATH=" + folder, "PYTHONDONTWRITEBYTECODE=1", "python3", "-S", path}
	}
}

// typescriptPackage is the client as npm has packed and installed it, once for all tests; "": that failed.
var typescriptPackage struct {
	once sync.Once
	dir  string
}

// packTypescript packs the client with npm and returns the folder where npm has installed the package.
func packTypescript(t *testing.T, tsc string) string {
	t.Helper()
	source := copyFolder(t, clientFolder("typescript"))
	dir, err := os.MkdirTemp(bin, "typescript-")
	if err == nil {
		err = os.RemoveAll(filepath.Join(source, "dist"))
	}
	if err != nil {
		t.Fatal(err)
	}
	runCommand(t, source, "env", "PATH="+filepath.Dir(tsc)+":"+os.Getenv("PATH"), "npm", "pack", "--silent",
		"--pack-destination", dir)
	packed, err := filepath.Glob(filepath.Join(dir, "ao-client-*.tgz"))
	if err != nil || len(packed) != 1 {
		t.Fatalf("npm pack made %v %v", packed, err)
	}
	writeFile(t, filepath.Join(dir, "package.json"), `{"type":"module"}`)
	runCommand(t, dir, "npm", "install", "--offline", "--no-audit", "--no-fund", "--silent", packed[0])
	return dir
}

// installTypescript makes the package available to programs, which it compiles.
func installTypescript(t *testing.T) func(*testing.T, string) []string {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED: there is no %s here", program)
		}
	}
	tsc, err := typescript()
	if err != nil {
		t.Skipf("SKIPPED: there is no tsc: %v", err)
	}
	typescriptPackage.once.Do(func() { typescriptPackage.dir = packTypescript(t, tsc) })
	dir := typescriptPackage.dir
	if dir == "" {
		t.Fatal("the package cannot be installed: another test says why")
	}
	return func(t *testing.T, text string) []string {
		t.Helper()
		of, err := os.MkdirTemp(dir, "program-")
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(of, "program.ts"), text)
		runCommand(t, of, tsc, "--strict", "--skipDefaultLibCheck", "--target", "es2022", "--module", "es2022",
			"--moduleResolution", "bundler", "program.ts")
		return []string{"node", filepath.Join(of, "program.js")}
	}
}

func clientFolder(language string) string {
	return filepath.Join(root(), "shared", "clients", language)
}

// copyFolder copies a folder, because package managers write into it.
func copyFolder(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// typescript and pyright are type checkers.
var (
	typescript = npmProgram("typescript@5.9.3", "tsc")
	pyright    = npmProgram("pyright@1.1.414", "pyright")
)

// npmProgram returns the path of a program that is installed, or that npm installs once into the user's cache.
func npmProgram(fetched, name string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		kept := filepath.Join(cache, "ao-e2e", fetched)
		path := filepath.Join(kept, "node_modules", ".bin", name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
		if err := os.MkdirAll(filepath.Dir(kept), 0o700); err != nil {
			return "", err
		}
		dir, err := os.MkdirTemp(filepath.Dir(kept), "fetching-")
		if err != nil {
			return "", err
		}
		defer os.RemoveAll(dir)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if out, err := exec.CommandContext(ctx, "npm", "install", "--prefix", dir, "--ignore-scripts", "--no-audit",
			"--no-fund", fetched).CombinedOutput(); err != nil {
			return "", errors.New("npm cannot fetch it: " + strings.TrimSpace(string(out)) + err.Error())
		}
		if err := os.Rename(dir, kept); err != nil { // another test process was quicker
			_, err = os.Stat(path)
			return path, err
		}
		return path, nil
	})
}
