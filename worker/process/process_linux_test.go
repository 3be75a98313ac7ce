package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ao/shared/clock/clocktest"
)

// What the main thread starts is taken for an orphan (orphans), as only Run starts programs in a worker. Tests start
// others, too: so they run on other threads.
func init() { runtime.LockOSThread() }

// TestMain turns the test binary into the program of TestKilledWorkerLeavesNothing if asked to.
func TestMain(m *testing.M) {
	if os.Getenv("PROCESS_TEST_PRIVATE") != "" {
		const getDumpable = 3 // PR_GET_DUMPABLE
		before, _, _ := syscall.RawSyscall(syscall.SYS_PRCTL, getDumpable, 0, 0)
		Private()
		after, _, _ := syscall.RawSyscall(syscall.SYS_PRCTL, getDumpable, 0, 0)
		fmt.Println(before, after)
		os.Exit(0)
	}
	if os.Getenv("PROCESS_TEST_PROWL") != "" {
		runSearcher()
	}
	if os.Getenv("PROCESS_TEST_SEALER") != "" {
		runSealingWorker()
	}
	if os.Getenv("PROCESS_TEST_HIDER") != "" && os.Getenv(guardEnv) == "" {
		runHidingWorker()
	}
	if script := os.Getenv("PROCESS_TEST_WORKER"); script != "" || os.Getenv(guardEnv) != "" {
		if err := Guard(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		if err := Hide(filepath.SplitList(os.Getenv("PROCESS_TEST_HIDE"))); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		Run(context.Background(), sh(script))
		os.Exit(0)
	}
	marks.sole.Store(true) // as after Guard: every orphan is reaped
	code := m.Run()
	RemoveTempDirs()
	os.RemoveAll(searchDir)
	os.Exit(code)
}

func sh(script string, args ...string) Spec {
	return Spec{Path: "/bin/sh", Args: append([]string{"-c", script, "sh"}, args...),
		Env: []string{"PATH=" + os.Getenv("PATH")}}
}

func alive(pid int) bool {
	return syscall.Kill(pid, 0) == nil && !zombie(pid)
}

// pids reads a file of numbers, and waits until there are n.
func pids(t testing.TB, file string, n int) (all []int) {
	t.Helper()
	clocktest.Until(t, fmt.Sprintf("%d numbers in %s", n, file), func() bool {
		raw, _ := os.ReadFile(file)
		all = parseInts(raw)
		return len(all) >= n && bytes.HasSuffix(raw, []byte("\n"))
	})
	return all
}

func TestExit(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		stdin        string
		want         string // code signal stdout stderr
	}{
		{"nothing", "", "", `0 0 "" ""`},
		{"both pipes", "echo out; echo err >&2", "", `0 0 "out\n" "err\n"`},
		{"code", "echo no >&2; exit 7", "", `7 0 "" "no\n"`},
		{"signal", "kill -9 $$", "", `137 9 "" ""`},
		{"no input is an empty one", "wc -c", "", `0 0 "0\n" ""`},
		{"input", "cat", "hello", `0 0 "hello" ""`},
		{"large input", "wc -c", strings.Repeat("x", 3<<20), `0 0 "3145728\n" ""`},
		{"input not read", "exit 3", strings.Repeat("x", 3<<20), `3 0 "" ""`},
		{"input closed early", "head -c 3; exec <&-; exit 0", strings.Repeat("x", 3<<20), `0 0 "xxx" ""`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := sh(tt.script)
			s.Stdin = []byte(tt.stdin)
			e, err := Run(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("%d %d %q %q", e.Code, e.signal, e.Stdout, e.Stderr); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestEnvironmentIsBuiltFromEmpty(t *testing.T) {
	t.Setenv("SECRET_OF_THE_WORKER", "x")
	e, err := Run(t.Context(), Spec{Path: "/usr/bin/env", Env: []string{"A=1"}})
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(e.Stdout))
	if len(got) != 2 || got[0] != "A=1" || !strings.HasPrefix(got[1], MarkEnv+"=") {
		t.Errorf("got %q, want A=1 and the mark", got)
	}
}

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode fs.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := file("plain", "#!/bin/sh\n", 0o600)
	noInterpreter := file("lost", "#!/no/such/shell -e\n", 0o700)
	noShebang := file("text", "echo hello\n", 0o700)
	good := file("good", "#!/bin/sh\n", 0o700)
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		spec Spec
		is   error
		want string
	}{
		{"missing", Spec{Path: dir + "/nothing"}, fs.ErrNotExist,
			`command "DIR/nothing": DIR/nothing does not exist`},
		{"a directory", Spec{Path: dir}, syscall.EISDIR, `command "DIR": DIR is a directory, not a program`},
		{"not executable", Spec{Path: plain}, fs.ErrPermission,
			`command "DIR/plain": DIR/plain is not executable; chmod +x it`},
		{"no interpreter", Spec{Path: noInterpreter}, syscall.ENOENT,
			`command "DIR/lost": its interpreter /no/such/shell does not exist`},
		{"line ends of Windows", Spec{Path: file("dos", "#!/bin/sh\r\n", 0o700)}, syscall.ENOENT,
			`command "DIR/dos": bad interpreter: the first line ends in a carriage return; save the file with line ` +
				`ends of Unix`},
		{"a pipe", Spec{Path: fifo}, fs.ErrPermission, `command "DIR/fifo": DIR/fifo is not a regular file`},
		{"no program", Spec{Path: noShebang}, syscall.ENOEXEC,
			`command "DIR/text": not an executable of this system; a script begins with a line like #!/bin/sh`},
		{"no working directory", Spec{Path: good, Dir: dir + "/gone"}, syscall.ENOENT,
			`command "DIR/good": the working directory DIR/gone does not exist`},
		{"a file as working directory", Spec{Path: good, Dir: plain}, syscall.ENOTDIR,
			`command "DIR/good": the working directory DIR/plain is not a directory`},
		{"NUL", Spec{Path: good, Args: []string{"a\x00b"}}, syscall.EINVAL,
			`command "DIR/good": an argument or a variable of its environment contains a NUL byte`},
		{"too long", Spec{Path: good, Args: []string{strings.Repeat("x", 4<<20)}}, syscall.E2BIG,
			`command "DIR/good": its arguments and environment are too long for the system`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Run(t.Context(), tt.spec)
			if err == nil {
				t.Fatal("it was started")
			}
			if got := strings.ReplaceAll(err.Error(), dir, "DIR"); got != tt.want || !errors.Is(err, tt.is) {
				t.Errorf("got  %s (is %v: %v)\nwant %s", got, tt.is, errors.Is(err, tt.is), tt.want)
			}
			if _, ok := errors.AsType[*StartError](err); !ok {
				t.Errorf("got %T, want *StartError", err)
			}
		})
	}
}

// TestAPipeInPlaceOfAScript: a program that was replaced by a pipe as it started holds up nobody who asks why.
func TestAPipeInPlaceOfAScript(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o700); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() { read <- interpreter(fifo) }()
	select {
	case got := <-read:
		if got != "" {
			t.Errorf("got %q", got)
		}
	case <-time.After(5 * time.Second):
		t.Error("it waits for a writer")
	}
}

// TestReasonNamesSignals: whether the signal ended the program, or a program that it started. The field is for what is
// certain, and for the signals by which programs are ended from outside.
func TestReasonNamesSignals(t *testing.T) {
	for _, tt := range []struct{ script, want string }{
		{"kill -9 $$", `Process was killed by signal 9 (SIGKILL), {"exit_code":137,"signal":"SIGKILL"}`},
		{"kill -11 $$", `Process was killed by signal 11 (SIGSEGV), {"exit_code":139,"signal":"SIGSEGV"}`},
		{"exit 137", `Process exited with code 137 (128 + 9, SIGKILL), {"exit_code":137,"signal":"SIGKILL"}`},
		{"echo gone >&2; kill -9 $$", `gone, {"exit_code":137,"signal":"SIGKILL"}`},
		{"exit 143", `Process exited with code 143 (128 + 15, SIGTERM), {"exit_code":143,"signal":"SIGTERM"}`},
		{"exit 129", `Process exited with code 129 (128 + 1, SIGHUP), {"exit_code":129}`}, // git of a wrong usage
		{"kill -10 $$", `Process was killed by signal 10 (SIGUSR1), {"exit_code":138,"signal":"SIGUSR1"}`},
		{"exit 255", `Process exited with code 255, {"exit_code":255}`},
		{"exit 128", `Process exited with code 128, {"exit_code":128}`},
		{"exit 3", `Process exited with code 3, {"exit_code":3}`},
	} {
		t.Run(tt.script, func(t *testing.T) {
			t.Parallel()
			e, err := Run(t.Context(), sh(tt.script))
			if err != nil {
				t.Fatal(err)
			}
			f := e.Fault("x")
			fields := map[string]any{}
			for _, m := range f.Fields {
				fields[m.Name] = m.Value
			}
			raw, err := json.Marshal(fields)
			if got := f.Message + ", " + string(raw); err != nil || got != tt.want {
				t.Errorf("%v: got %s, want %s", err, got, tt.want)
			}
		})
	}
}

// TestLineEndsOfWindows: a script whose interpreter starts and stumbles over them. Other failures are left alone.
func TestLineEndsOfWindows(t *testing.T) {
	const hint = "the first line ends in a carriage return; save the file with line ends of Unix"
	for _, tt := range []struct {
		text string
		want bool
	}{
		{"#!/bin/sh -e\r\necho hi\r\n", true},
		{"#!/usr/bin/env sh\r\necho hi\r\n", true},
		{"#!/bin/sh -e\nexit 3\n", false},
	} {
		t.Run(tt.text, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "script"), []byte(tt.text), 0o700); err != nil {
				t.Fatal(err)
			}
			e, err := Run(t.Context(), Spec{Path: "./script", Dir: dir})
			if got := e.Fault("x").Message; err != nil || e.Code == 0 || strings.Contains(got, hint) != tt.want {
				t.Errorf("%d %v: %s", e.Code, err, got)
			}
		})
	}
}

// TestAFolderThatComesAndGoes: the folder of a run was not there as its program started, and is now. That is the run's
// matter: others can start the program.
func TestAFolderThatComesAndGoes(t *testing.T) {
	dir := t.TempDir()
	script, lost, dos := filepath.Join(dir, "script"), filepath.Join(dir, "lost"), filepath.Join(dir, "dos")
	for path, text := range map[string]string{script: "#!/bin/sh\n", lost: "#!/no/such/shell\n", dos: "#!/bin/sh\r\n"} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		path, dir string
		err       error
		ofRun     bool
	}{
		{script, dir, syscall.ENOENT, true},
		{script, dir, syscall.EACCES, true},
		{"/bin/sh", dir, syscall.ENOTDIR, true},
		{lost, dir, syscall.ENOENT, false},
		{dos, dir, syscall.ENOENT, false},
		{script, "", syscall.ENOENT, false},
		{script, dir, syscall.EAGAIN, false},
	} {
		bad, ok := errors.AsType[*StartError](explainStart(Spec{Path: tt.path, Dir: tt.dir}, tt.err))
		if !ok || bad.OfRun() != tt.ofRun {
			t.Errorf("%s in %q, %v: %v, want of the run: %v", tt.path, tt.dir, tt.err, bad, tt.ofRun)
		}
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(dir+"/tool", []byte("#!/bin/sh\n"), 0o700)
	os.WriteFile(dir+"/plain", nil, 0o600)
	for _, tt := range []struct{ command, want string }{
		{"./tool", "DIR/tool"},
		{"tool", "DIR/tool"},
		{dir + "/tool", "DIR/tool"},
		{"sh", func() string { p, _ := exec.LookPath("sh"); return p }()},
		{"./gone", `command "./gone": DIR/gone does not exist`},
		{"no-such-program", `command "no-such-program": no such file in DIR and no such program on PATH`},
		{"plain", `command "plain": DIR/plain is not executable; chmod +x it`},
		{"..", `command "..": PARENT is a directory, not a program`},
		{"", `command "": is empty; name a program`},
	} {
		t.Run(tt.command, func(t *testing.T) {
			got, err := Find(tt.command, dir)
			if err != nil {
				got = err.Error()
			}
			got = strings.ReplaceAll(got, dir, "DIR")
			got = strings.ReplaceAll(got, filepath.Dir(dir), "PARENT")
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestCancelledBeforeStart(t *testing.T) {
	cause := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	file := filepath.Join(t.TempDir(), "ran")
	if _, err := Run(ctx, sh("touch "+file)); !errors.Is(err, cause) {
		t.Errorf("got %v, want the cause", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("it ran")
	}
}

// TestNoProcessLeft runs scripts that leave processes behind, with their numbers in $1, and finds none of them.
func TestNoProcessLeft(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		n            int
		stop         bool
	}{
		{"child in the group, after a clean exit", `sleep 100 & echo $! >>$1`, 1, false},
		{"child that ignores SIGTERM", `(trap "" TERM; while :; do sleep 100; done) & echo $! >>$1`, 1, false},
		{"child in another session, after a clean exit",
			`setsid sh -c 'echo $$ >>$0; exec sleep 100' $1 & while ! [ -s $1 ]; do sleep 0.01; done`, 1, false},
		{"daemon: session of its own, twice forked, pipes closed",
			`setsid sh -c 'sh -c "echo \$\$ >>$0; exec sleep 100" </dev/null >/dev/null 2>&1 &' $1; while ! [ -s $1 ` +
				`]; do sleep 0.01; done`, 1, false},
		{"daemon whose child has no environment",
			`setsid sh -c 'echo $$ >>$0; env -i sleep 100 & echo $! >>$0; wait' $1 & while [ $(wc -l <$1) -lt 2 ]; ` +
				`do sleep 0.01; done`, 2, false},
		{"stop: everything ignores SIGTERM", `trap "" TERM; sleep 100 & echo $! >>$1; echo $$ >>$1; wait; sleep 100`, 2,
			true},
		{"stop: daemon", `setsid sh -c 'trap "" TERM; echo $$ >>$0; sleep 100; sleep 100' $1 & wait`, 1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pids")
			os.WriteFile(file, nil, 0o600)
			ctx, cancel := context.WithCancelCause(t.Context())
			s := sh(tt.script, file)
			s.Grace = 50 * time.Millisecond
			var err error
			var wg sync.WaitGroup
			wg.Go(func() { _, err = Run(ctx, s) })
			all := pids(t, file, tt.n)
			if tt.stop {
				cancel(errors.New("stop"))
			}
			start := time.Now()
			wg.Wait()
			cancel(nil)
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
			if (err != nil) != tt.stop {
				t.Errorf("err %v", err)
			}
			for _, pid := range all {
				if syscall.Kill(pid, 0) == nil {
					t.Errorf("%d is left", pid)
				}
			}
		})
	}
}

func TestAnotherRunIsSpared(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	ctx, cancel := context.WithCancel(t.Context())
	s := sh(`setsid sh -c 'sh -c "echo \$\$; exec sleep 100" >>$0 2>&1 &' $1; sleep 100`, file)
	var wg sync.WaitGroup
	wg.Go(func() { Run(ctx, s) })
	pid := pids(t, file, 1)[0]
	clocktest.Until(t, "the daemon is adopted", func() bool { return len(orphans()) > 0 })
	if _, err := Run(t.Context(), sh("true")); err != nil {
		t.Fatal(err)
	}
	if !alive(pid) {
		t.Error("the end of one Run killed another's daemon")
	}
	cancel()
	wg.Wait()
	if alive(pid) {
		t.Error("the daemon is left")
	}
}

// TestUnmarkedChildOfADaemon: known by its parent only, as another Run is active.
func TestUnmarkedChildOfADaemon(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	other := make(chan struct{})
	wg.Go(func() {
		s := sh("echo; sleep 100")
		s.OnStdout = func([]byte) { close(other) }
		Run(ctx, s)
	})
	<-other
	file := filepath.Join(t.TempDir(), "pids")
	os.WriteFile(file, nil, 0o600)
	Run(t.Context(),
		sh(`setsid sh -c 'env -i setsid sleep 100 & echo $! >>$0; wait' $1 & while ! [ -s $1 ]; do sleep 0.01; done`,
			file))
	if pid := pids(t, file, 1)[0]; alive(pid) {
		syscall.Kill(pid, syscall.SIGKILL)
		t.Errorf("%d is left", pid)
	}
}

// TestUnmarkedDaemon: nothing identifies it, but nobody else could have left it.
func TestUnmarkedDaemon(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	os.WriteFile(file, nil, 0o600)
	if _, err := Run(t.Context(),
		sh(`env -i setsid sh -c 'sh -c "echo \$\$ >>$0; exec sleep 100" &' $1; while ! [ -s $1 ]; do sleep 0.01; done`,
			file)); err != nil {
		t.Fatal(err)
	}
	if pid := pids(t, file, 1)[0]; alive(pid) {
		t.Errorf("%d is left", pid)
	}
}

// TestKnownInTheMiddleOfItsExec: a process that executes one program after the other is always recognized, and so is
// one without an environment.
func TestKnownInTheMiddleOfItsExec(t *testing.T) {
	m := newMark()
	defer m.release()
	start := func(env []string, args ...string) int {
		t.Helper()
		c := exec.Command("/bin/sh", args...)
		c.Env = env
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Process.Kill(); c.Wait() })
		return c.Process.Pid
	}
	other := newMark()
	defer other.release()
	busy := start([]string{other.env()}, "-c", `exec /bin/sh -c "$0" "$0"`, `exec /bin/sh -c "$0" "$0"`)
	none := start([]string{}, "-c", "exec sleep 100")
	other.release()
	for range 20000 {
		soon := time.Now().Add(time.Second)
		if !runEnded(busy, soon) && time.Now().Before(soon) {
			t.Fatal("a process whose Run is over is taken for a stranger")
		}
	}
	if runEnded(none, time.Now().Add(time.Second)) {
		t.Error("who has no mark is taken for one of a Run that is over")
	}
}

func TestStop(t *testing.T) {
	t.Run("cleans up within the grace", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("stopped by a person")
		s := sh(`trap 'echo cleaned; exit 4' TERM; echo ready; while :; do sleep 0.01; done`)
		s.OnStdout = func(line []byte) {
			if string(line) == "ready" {
				cancel(cause)
			}
		}
		e, err := Run(ctx, s)
		if !errors.Is(err, cause) || e.Code != 4 || string(e.Stdout) != "ready\ncleaned\n" {
			t.Errorf("got %d %q %v", e.Code, e.Stdout, err)
		}
	})
	t.Run("a child has the grace, too, when its parent dies at once", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := sh(`sh -c 'trap "sleep 0.2; echo cleaned; exit 0" TERM; echo ready; while :; do sleep 0.01; done' & wait`)
		s.OnStdout = func(line []byte) { cancel() }
		e, _ := Run(ctx, s)
		if string(e.Stdout) != "ready\ncleaned\n" || e.signal != syscall.SIGTERM {
			t.Errorf("got %q, signal %d", e.Stdout, e.signal)
		}
	})
	t.Run("a silent one that ignores it", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := sh(`trap "" TERM; echo deaf; while :; do sleep 1; done`)
		s.Grace, s.OnStdout = 50*time.Millisecond, func([]byte) { cancel() } // not before it is deaf
		start := time.Now()
		e, err := Run(ctx, s)
		if !errors.Is(err, context.Canceled) || e.signal != syscall.SIGKILL || time.Since(start) > 10*time.Second {
			t.Errorf("got %v, signal %d after %v", err, e.signal, time.Since(start))
		}
	})
}

func TestMuchOutput(t *testing.T) {
	s := sh(`head -c 100000000 /dev/zero | tr '\0' 'x'; echo; echo end`)
	s.MaxOutput, s.MaxLine = 1<<20, 1000
	var got []string
	s.OnStdout = func(line []byte) { got = append(got, string(line)) }
	e, err := Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	mark := fmt.Sprintf("\n[… %d bytes cut …]\n", 100000005-1<<20)
	if len(e.Stdout) != 1<<20+len(mark) || !bytes.Contains(e.Stdout, []byte(mark)) ||
		!bytes.HasSuffix(e.Stdout, []byte("xx\nend\n")) || e.StdoutCut != 100000005-1<<20 {
		t.Errorf("got %d bytes, %d cut, end %q", len(e.Stdout), e.StdoutCut, e.Stdout[len(e.Stdout)-20:])
	}
	if want := strings.Repeat("x", 1000) + " [… 99999000 bytes cut]"; len(got) != 2 || got[0] != want ||
		got[1] != "end" {
		t.Errorf("got %d lines of %d bytes", len(got), len(got[0]))
	}
}

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		text  string
		limit int
		want  string
	}{
		{"abc", 3, "abc"},
		{"abcdefghij", 4, "ab\n[… 6 bytes cut …]\nij"},
		{"aéééééz", 6, "aé\n[… 6 bytes cut …]\néz"},
		{"ééééé", 3, "é\n[… 8 bytes cut …]\n"},
	} {
		if got := string(Cut([]byte(tt.text), tt.limit)); got != tt.want {
			t.Errorf("Cut(%q, %d): got %q, want %q", tt.text, tt.limit, got, tt.want)
		}
	}
}

func TestLines(t *testing.T) {
	var got []string
	l := lineSplitter{limit: 4, onLine: func(b []byte) { got = append(got, string(b)) }}
	for _, part := range []string{"a", "b\r\n\nabc", "d\nabcde", "fg\nlast"} {
		l.add([]byte(part))
	}
	l.flush()
	if want := `["ab" "" "abcd" "abcd [… 3 bytes cut]" "last"]`; fmt.Sprintf("%q", got) != want {
		t.Errorf("got %q, want %s", got, want)
	}
}

// TestManyAtOnce also checks for leaks in this process: goroutines, files, children.
func TestManyAtOnce(t *testing.T) {
	Run(t.Context(), sh("true"))
	files := func() int { e, _ := os.ReadDir("/proc/self/fd"); return len(e) }
	goroutines, open := runtime.NumGoroutine(), files()
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			s := sh(`cat; echo $1 >&2; sleep 0.05 & exit $1`, strconv.Itoa(i))
			s.Stdin = []byte(fmt.Sprint("input ", i))
			e, err := Run(t.Context(), s)
			if got, want := fmt.Sprintf("%d %s %s %v", e.Code, e.Stdout, e.Stderr, err),
				fmt.Sprintf("%d input %d %d\n <nil>", i, i, i); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	wg.Wait()
	clocktest.Until(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= goroutines })
	clocktest.Until(t, "no file is left", func() bool { return files() <= open })
	var info syscall.WaitStatus
	if pid, err := syscall.Wait4(-1, &info, syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("a child is left: %d, %v", pid, err)
	}
}

// TestKilledWorkerLeavesNothing kills a program that uses this package with SIGKILL.
func TestKilledWorkerLeavesNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	worker := exec.Command(os.Args[0])
	worker.Env = []string{"PATH=" + os.Getenv("PATH"), `PROCESS_TEST_WORKER=echo $$ >>` + file + `
		sleep 100 & echo $! >>` + file + `
		setsid sh -c 'echo $$ >>$0; exec sleep 100' ` + file + ` &
		wait`}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	all := pids(t, file, 3)
	for _, pid := range all {
		if !alive(pid) {
			t.Fatalf("%d does not live", pid)
		}
	}
	worker.Process.Kill()
	worker.Wait()
	for _, pid := range all {
		clocktest.Until(t, fmt.Sprintf("%d has gone", pid), func() bool { return !alive(pid) })
	}
}

// TestProgramsOutliveThreads ends threads of this process while a program runs, which must not end with them.
func TestProgramsOutliveThreads(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	ctx, cancel := context.WithCancel(t.Context())
	var e Exit
	var wg sync.WaitGroup
	wg.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		s := sh(`echo $$ >>$1; sleep 0.3`, file)
		wg.Go(func() { e, _ = Run(ctx, s) })
	})
	pids(t, file, 1)
	for range 50 {
		wg.Go(func() { runtime.LockOSThread() })
	}
	wg.Wait()
	cancel()
	if e.Code != 0 {
		t.Errorf("got %d, want 0", e.Code)
	}
}
