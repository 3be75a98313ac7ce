package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"ao/shared/clock/clocktest"
	"ao/worker/process/secretsearch"
)

// runHidingWorker is a worker that hides PROCESS_TEST_HIDE. Its program, also this test binary, searches for the
// secret, in namespaces of its own as well if possible, and prints its findings.
func runHidingWorker() {
	var box Confinement
	if os.Getenv("PROCESS_TEST_LIMITED") != "" {
		box.Limits = Limits{OpenFiles: 500}
	}
	if os.Getenv("PROCESS_TEST_BOX") != "" {
		box = Confinement{Sandbox: Sandbox{Kind: Bubblewrap, Write: []string{os.TempDir()}},
			SecretFiles: []string{os.Getenv("PROCESS_TEST_KEY")}}
	}
	if os.Getenv("PROCESS_TEST_OPEN") == "" {
		Private()
	}
	if err := Guard(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if paths := os.Getenv("PROCESS_TEST_HIDE"); paths != "" {
		if err := Hide(filepath.SplitList(paths)); err != nil {
			fmt.Println("cannot hide:", err)
			os.Exit(1)
		}
	}
	// the worker itself reads it, before and after, and has it in memory
	kept, err := os.ReadFile(os.Getenv("PROCESS_TEST_KEY"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	self, _ := os.Executable()
	e, err := Run(context.Background(), Spec{Path: self, Confinement: &box,
		Stdin: fmt.Appendf(nil, "%sprocess %d\n", os.Getenv("PROCESS_TEST_ASK"), os.Getpid()),
		Env:   []string{"PROCESS_TEST_PROWL=1", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}})
	fmt.Printf("%s%s", e.Stdout, e.Stderr)
	if again, _ := os.ReadFile(os.Getenv("PROCESS_TEST_KEY")); err != nil || string(again) != string(kept) {
		fmt.Println(err, "the worker cannot read its own key any more")
		os.Exit(1)
	}
	os.Exit(e.Code)
}

// runSearcher prints its findings, also from namespaces of its own.
func runSearcher() {
	loot, err := secretsearch.Main(os.Stdin)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(loot)
	os.Exit(0)
}

// nobody is the user of the search if tests run as root, whose capabilities can read everything.
const nobody = 65534

var searchDir string // by own

// searchProgram is this test's program where nobody can start it.
var searchProgram = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "search")
	if err != nil {
		return "", err
	}
	searchDir = dir
	text, err := os.ReadFile(os.Args[0])
	return filepath.Join(dir, "search"), errors.Join(err, os.Chmod(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "search"), text, 0o755))
})

// nobodyDir returns a folder of the user nobody.
func nobodyDir(t *testing.T) string {
	t.Helper()
	top := t.TempDir()
	if os.Getuid() == 0 {
		if err := errors.Join(os.Chmod(filepath.Dir(top), 0o755), os.Chown(top, nobody, nobody)); err != nil {
			t.Fatal(err)
		}
	}
	return top
}

// search starts a worker whose program searches for the key below top.
func search(t *testing.T, top string, env ...string) (loot secretsearch.Findings, output string) {
	t.Helper()
	key := filepath.Join(top, "keys", "worker", "nats.nk")
	if _, err := os.Stat(key); err != nil {
		for name, text := range map[string]string{"keys/worker/nats.nk": "SECRET42\n", "keys/open": "no", "tmp/x": "no",
			"beside/x": "no"} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(top, name)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(top, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	program, err := searchProgram()
	if err != nil {
		t.Fatal(err)
	}
	worker := exec.Command(program)
	worker.Dir = top
	if os.Getuid() == 0 {
		worker.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		err := filepath.WalkDir(top, func(path string, _ fs.DirEntry, _ error) error {
			return os.Chown(path, nobody, nobody)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	worker.Env = append([]string{
		"PROCESS_TEST_HIDER=1", "PROCESS_TEST_KEY=" + key, "TMPDIR=" + filepath.Join(top, "tmp"),
		"PATH=" + os.Getenv("PATH"), "GOCOVERDIR=" + os.TempDir(),
		"PROCESS_TEST_ASK=secret SECRE[T]42\nroot " + top + "\nroot /dev/shm\nplace " + filepath.Dir(key) + "\n",
	}, env...)
	out, err := worker.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	json.Unmarshal(out, &loot)
	return loot, string(out)
}

// TestHiddenFilesAreReadByNoProgram: the key is found in many ways if it is not hidden, and in none if it is.
func TestHiddenFilesAreReadByNoProgram(t *testing.T) {
	if loot, output := search(t, nobodyDir(t), "PROCESS_TEST_OPEN=1"); len(loot.Found) < 5 ||
		!slices.ContainsFunc(loot.Found, func(s string) bool {
			return strings.HasSuffix(s, "/mem")
		}) {
		t.Errorf("where nothing is hidden it should be found in files and in memory, got %s", output)
	}
	for _, tt := range []struct {
		name  string
		hide  string // below the folder
		env   []string
		reads int // so many files at least
	}{
		{"the file", "keys/worker/nats.nk", nil, 3},
		{"its folder, and another", "keys/worker,gone/one", nil, 3},
		{"the folder above", "keys", nil, 2},
		{"with limits, which the worker sets", "keys", []string{"PROCESS_TEST_LIMITED=1"}, 2},
		{"in a sandbox", "keys", []string{"PROCESS_TEST_BOX=1"}, 1},
		{"in a sandbox, which hides a login by itself", "", []string{"PROCESS_TEST_BOX=1"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(fmt.Sprint(tt.env), "BOX") {
				if err := (&Confinement{Sandbox: Sandbox{Kind: Bubblewrap}}).Supported(); err != nil {
					t.Skipf("bubblewrap is not tried: %v", err)
				}
			}
			top := nobodyDir(t)
			var hide []string
			for _, name := range strings.FieldsFunc(tt.hide, func(r rune) bool { return r == ',' }) {
				hide = append(hide, filepath.Join(top, name))
			}
			loot, output := search(t, top, append(tt.env, "PROCESS_TEST_HIDE="+strings.Join(hide, ":"))...)
			if strings.Contains(output, "Landlock is not available") {
				t.Skip(output)
			}
			if len(loot.Found) > 0 || len(loot.Entered) > 0 || loot.Files < tt.reads || loot.Processes == 0 {
				t.Errorf("got %s", output)
			}
		})
	}
}

// TestWhatCannotBeHidden: the error names the path and what to do, and nothing is started.
func TestWhatCannotBeHidden(t *testing.T) {
	t.Parallel()
	for hide, want := range map[string]string{
		"keys/worker": "write an absolute path",
		"/":           " overlaps ",
		"TOP/tmp":     "TOP/tmp overlaps TOP/tmp, a folder that programs work in",
		"TOP/tmp/in":  " overlaps ",
		"TOP":         " overlaps ",
	} {
		top := nobodyDir(t)
		_, output := search(t, top, "PROCESS_TEST_HIDE="+strings.ReplaceAll(hide, "TOP", top))
		want = strings.ReplaceAll(want, "TOP", top)
		if !strings.Contains(output, "cannot hide: ") || !strings.Contains(output, want) {
			t.Errorf("%s: got %s, want %s", hide, output, want)
		}
	}
}

// TestProgramsOfAHidingWorkerAreAsOthers: programs can move, create and read files; the guard and the sweep still
// kill what is left.
func TestProgramsOfAHidingWorkerAreAsOthers(t *testing.T) {
	top := t.TempDir()
	os.MkdirAll(filepath.Join(top, "keys"), 0o700)
	os.MkdirAll(filepath.Join(top, "tmp"), 0o700)
	worker := exec.Command(os.Args[0])
	worker.Env = []string{"PROCESS_TEST_WORKER=" + `cd ` + top +
		`/tmp && mkdir a b && echo moved >a/f && perl -e 'rename("a/f","b/g") or die $!' && ln b/g a/h && cat a/h ` +
		`>said; setsid sleep 100 & sleep 100 & echo $$ $! >pids; wait`,
		"PROCESS_TEST_HIDE=" + filepath.Join(top, "keys"), "PATH=" + os.Getenv("PATH"), "TMPDIR=" + top + "/tmp"}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	var left []int
	clocktest.Until(t, "its program has started others", func() bool {
		text, _ := os.ReadFile(top + "/tmp/pids")
		left = parseInts(text)
		return len(left) == 2
	})
	if output, _ := os.ReadFile(top + "/tmp/said"); string(output) != "moved\n" {
		t.Errorf("a file that was moved and linked reads %q", output)
	}
	worker.Process.Signal(syscall.SIGKILL)
	worker.Wait()
	for _, pid := range left {
		clocktest.Until(t, fmt.Sprintf("%d is gone", pid), func() bool { return !alive(pid) })
	}
}

// TestExposedSecret: a login is exposed unless a sandbox hides it; an empty name is not.
func TestExposedSecret(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		c    Confinement
		want string
	}{
		{Confinement{}, ""},
		{Confinement{SecretFiles: []string{"/keys/../keys/a", "/keys/b"}}, "/keys/a"},
		{Confinement{SecretFiles: []string{"/keys/a"}, Sandbox: Sandbox{Kind: noSandbox}}, "/keys/a"},
		{Confinement{SecretFiles: []string{"/keys/a"}, Sandbox: Sandbox{Kind: Bubblewrap}}, ""},
	} {
		if got := tt.c.ExposedSecret(); got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.c, got, tt.want)
		}
	}
}
