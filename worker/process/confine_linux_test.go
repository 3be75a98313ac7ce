package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// confinedTo runs a line of sh in a confinement.
func confinedTo(t *testing.T, c Confinement, dir, line string) (Exit, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	return Run(ctx, Spec{Path: "/bin/sh", Args: []string{"-c", line}, Dir: dir,
		Env: []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=/nowhere"}, Confinement: &c})
}

// TestLimitsHoldFromTheFirstInstruction asks the kernel for the limits of a program and of its child.
func TestLimitsHoldFromTheFirstInstruction(t *testing.T) {
	t.Parallel()
	all := Limits{CPUSeconds: 7, MemoryMB: 300, AddressSpaceMB: 900, FileMB: 3, OpenFiles: 50, Processes: 1 << 20}
	e, err := confinedTo(t, Confinement{Limits: all}, "", "cat /proc/$$/limits; echo ---; cat /proc/self/limits")
	if err != nil || e.Code != 0 {
		t.Fatalf("%v, %s", err, e.Stderr)
	}
	for i, text := range strings.Split(string(e.Stdout), "---") {
		text = strings.Join(strings.Fields(text), " ")
		for _, want := range []string{
			"Max cpu time 7 9 seconds", "Max file size 3145728 3145728 bytes",
			"Max data size 314572800 314572800 bytes", "Max core file size 0 0 bytes",
			"Max open files 50 50 files", "Max address space 943718400 943718400 bytes",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("process %d: %q is not among %s", i, want, text)
			}
		}
	}
	e, err = confinedTo(t, Confinement{}, "", "cat /proc/self/limits")
	if own, _ := os.ReadFile("/proc/self/limits"); err != nil || !sameLimits(string(own), string(e.Stdout)) {
		t.Errorf("without limits: %v\n%s", err, e.Stdout)
	}
}

// sameLimits compares all lines except that of open files, which Go raises for itself only.
func sameLimits(a, b string) bool {
	rest := func(s string) (kept string) {
		for line := range strings.Lines(s) {
			if !strings.HasPrefix(line, "Max open files") {
				kept += line
			}
		}
		return kept
	}
	return rest(a) == rest(b)
}

func TestTheLimitThatWasHitIsNamed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		limits Limits
		line   string
		want   string // the beginning of Why
	}{
		{"cpu", Limits{CPUSeconds: 1}, "while :; do :; done",
			"it hit the limit cpu_seconds of its profile (1 s of CPU time): "},
		{"cpu of a child", Limits{CPUSeconds: 1}, "sh -c 'while :; do :; done'; exit $?",
			"it hit the limit cpu_seconds of its profile"},
		{"cpu, and SIGXCPU is ignored", Limits{CPUSeconds: 1}, "trap '' XCPU; while :; do :; done",
			"it hit the limit cpu_seconds of its profile"},
		{"file", Limits{FileMB: 1}, "head -c 3000000 /dev/zero >$TMPDIR/f",
			"it hit the limit file_mb of its profile (1 MiB): "},
		{"file, and SIGXFSZ is ignored", Limits{FileMB: 1}, "trap '' XFSZ; head -c 3000000 /dev/zero >$TMPDIR/f",
			"it probably hit the limit file_mb of its profile (1 MiB): "},
		{"memory", Limits{MemoryMB: 64}, "dd if=/dev/zero of=/dev/null bs=200M count=1",
			"it probably hit the limit memory_mb of its profile (64 MiB): "},
		{"addresses", Limits{AddressSpaceMB: 64}, "dd if=/dev/zero of=/dev/null bs=200M count=1",
			"it probably hit the limit address_space_mb of its profile (64 MiB): "},
		{"another failure", Limits{MemoryMB: 64, CPUSeconds: 9, FileMB: 1}, "echo no such thing >&2; exit 3",
			"no such thing"},
		{"killed by somebody", Limits{CPUSeconds: 9}, "kill -9 $$", "Process was killed by signal 9 (SIGKILL)"},
		{"a limit it does not have", Limits{CPUSeconds: 9}, "echo out of memory >&2; exit 3", "out of memory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e, err := confinedTo(t, Confinement{Limits: tt.limits}, "", tt.line)
			if err != nil || e.Code == 0 || !strings.HasPrefix(e.Reason(), tt.want) {
				t.Errorf("%v, code %d, CPU %v: got %q, want %q…", err, e.Code, e.cpu, e.Reason(), tt.want)
			}
		})
	}
}

// TestPrivate asks the kernel, which applies it between processes of one user.
func TestPrivate(t *testing.T) {
	t.Parallel()
	e, err := Run(t.Context(), Spec{Path: os.Args[0], Env: []string{"PROCESS_TEST_PRIVATE=1"}})
	if err != nil || string(e.Stdout) != "1 0\n" {
		t.Errorf("%v: whether it may be looked into, before and after, is %q, want 1 and 0", err, e.Stdout)
	}
}

func TestTemporaryFilesAreItsOwnAndGo(t *testing.T) {
	t.Parallel()
	e, err := confinedTo(t,
		Confinement{},
		"",
		`echo "$TMPDIR"; stat -c %a "$TMPDIR"; cd "$TMPDIR"; mkdir -p a/b; echo x >a/b/f; ln -s / a/root; chmod 500 `+
			`a/b; chmod 0 a`)
	if err != nil || e.Code != 0 {
		t.Fatalf("%v %s", err, e.Stderr)
	}
	dir, mode, _ := strings.Cut(strings.TrimSpace(string(e.Stdout)), "\n")
	if filepath.Dir(dir) != filepath.Clean(os.TempDir()) || mode != "700" {
		t.Errorf("TMPDIR=%s, mode %s", dir, mode)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", dir, err)
	}
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Error(err)
	}
	if _, err := confinedTo(t, Confinement{}, "/no/such/folder", "true"); err == nil {
		t.Error("it worked in a folder that does not exist")
	}
}

// TestAnEmptyFolderIsUsedAgain, unless a program changed it or somebody removed it.
func TestAnEmptyFolderIsUsedAgain(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	RemoveTempDirs()
	t.Cleanup(RemoveTempDirs)
	use := func(line string) string {
		t.Helper()
		e, err := confinedTo(t, Confinement{}, "", "stat -c '%n %a' $TMPDIR; "+line)
		if dir, mode, _ := strings.Cut(strings.TrimSpace(string(e.Stdout)), " "); err == nil && mode == "700" {
			return dir
		}
		t.Fatalf("%v: %q %s", err, e.Stdout, e.Stderr)
		return ""
	}
	first := use("true")
	if again := use("chmod 755 $TMPDIR"); again != first {
		t.Errorf("an empty one was not used again: %s, then %s", first, again)
	}
	third := use("touch $TMPDIR/f")
	use("rmdir $TMPDIR; mkfifo $TMPDIR")
	if fourth := use("rmdir $TMPDIR"); third == first || fourth == third {
		t.Errorf("one with another mode was used again, or one that had a file: %s %s %s", first, third, fourth)
	}
	os.RemoveAll(use("true"))
	use("true")
	RemoveTempDirs()
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Errorf("%d are left", len(left))
	}
}

// sandbox skips the test if sandboxes do not work here.
func sandbox(t *testing.T) {
	t.Helper()
	if err := (Sandbox{Kind: Bubblewrap}).supported(); err != nil {
		t.Skipf("bubblewrap is not tried: %v", err)
	}
}

func TestSandbox(t *testing.T) {
	sandbox(t)
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(secret, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	// What lies under /tmp is covered by the sandbox's own; so this is beside it.
	beside, err := os.MkdirTemp("/var/tmp", "ao-sandbox-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(beside) })
	if err := os.WriteFile(beside+"/key", []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	off := false
	for _, tt := range []struct {
		name string
		box  Sandbox
		line string
		want string // part of what it wrote
	}{
		{"the root is read-only", Sandbox{}, "touch /var/tmp/x; touch /usr/x; touch $HOME/x; true",
			"Read-only file system"},
		{"the project folder is not", Sandbox{}, "echo mine >f && cat f && pwd", "mine\nPROJECT"},
		{"but can be", Sandbox{ProjectDir: "read"}, "echo mine >f", "Read-only file system"},
		{"/tmp is its own", Sandbox{}, "echo $TMPDIR; echo mine >/tmp/f && cat /tmp/f; ls /tmp | grep -c .",
			"/tmp\nmine\n"},
		{"files of others in /tmp are not there", Sandbox{}, "cat " + secret, "No such file"},
		{"it sees its own processes only", Sandbox{}, "ls /proc | grep -c '^[0-9]'; kill -0 " + fmt.Sprint(os.Getpid()),
			"No such process"},
		{"a folder is writable that it may write to", Sandbox{Write: []string{beside}},
			"cat " + beside + "/key && touch " + beside + "/x && echo ok", "s3cretok"},
		{"a folder is hidden", Sandbox{Hide: []string{beside}}, "ls -A " + beside + " | grep -c .", "0\n"},
		{"a file is hidden", Sandbox{Hide: []string{beside + "/key"}}, "cat " + beside + "/key; echo end", "end\n"},
		{"what is not named is not there", Sandbox{Read: existing("/usr", "/bin", "/lib", "/lib64")},
			"ls /etc /var /root /home", "cannot access '/etc'"},
		{"no network", Sandbox{Network: &off}, "cat /proc/net/dev | grep -c :", "1\n"},
		{"its exit code", Sandbox{}, "exit 7", "code 7"},
		{"it is not alone with its group", Sandbox{}, "sleep 100 & echo gone", "gone"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			project := t.TempDir()
			tt.box.Kind = Bubblewrap
			e, err := confinedTo(t, Confinement{Sandbox: tt.box}, project, tt.line)
			got := strings.ReplaceAll(fmt.Sprintf("%s%s code %d", e.Stdout, e.Stderr, e.Code), project, "PROJECT")
			if err != nil || !strings.Contains(got, tt.want) {
				t.Errorf("%v: got %q, want %q in it", err, got, tt.want)
			}
		})
	}
}

// TestNestedPaths: keys in a home folder that is the project stay hidden, and a project beside the program is
// writable.
func TestNestedPaths(t *testing.T) {
	sandbox(t)
	t.Parallel()
	home, err := os.MkdirTemp("/var/tmp", "ao-sandbox-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	for _, dir := range []string{"/keys", "/project"} {
		if err := errors.Join(os.Mkdir(home+dir, 0o700), os.WriteFile(home+dir+"/f", []byte("s3cret"),
			0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(home+"/keys/project", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(home+"/program", []byte("#!/bin/sh\ncat "+home+"/keys/f "+home+
		"/project/f\necho mine >$PWD/mine && cat $PWD/mine\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, dir string
		box       Sandbox
		want      string
	}{
		{"hidden in the project", home, Sandbox{Hide: []string{home + "/keys"}}, "s3cretmine\n"},
		{"hidden in what may be written to", home + "/project", Sandbox{Hide: []string{home + "/keys"},
			Write: []string{home}}, "s3cretmine\n"},
		{"the project is in a folder that is hidden", home + "/keys/project", Sandbox{Hide: []string{home + "/keys"}},
			"s3cretmine\n"},
		{"a file", home, Sandbox{Hide: []string{home + "/keys/f"}}, "s3cretmine\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.box.Kind = Bubblewrap
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			e, err := Run(ctx, Spec{Path: home + "/program", Dir: tt.dir, Env: []string{"PATH=" + os.Getenv("PATH")},
				Confinement: &Confinement{Sandbox: tt.box}})
			if err != nil || string(e.Stdout) != tt.want {
				t.Errorf("%v: got %q, want %q; %s", err, e.Stdout, tt.want, e.Stderr)
			}
		})
	}
}

func existing(paths ...string) (there []string) {
	for _, p := range paths {
		if _, err := os.Stat(p); err == nil {
			there = append(there, p)
		}
	}
	return there
}

// TestTheGatewayIsReachedFromTheSandbox: the sandbox has the machine's loopback, unless its network is off.
func TestTheGatewayIsReachedFromTheSandbox(t *testing.T) {
	sandbox(t)
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte("here"))
	})}
	go srv.Serve(ln)
	t.Cleanup(func() { srv.Close() })
	get := "exec 2>&1; bash -c 'exec 3<>/dev/tcp/127.0.0.1/" + fmt.Sprint(ln.Addr().(*net.TCPAddr).Port) +
		` && printf "GET / HTTP/1.0\r\n\r\n" >&3 && cat <&3'`
	for _, online := range []bool{true, false} {
		e, err := confinedTo(t, Confinement{Sandbox: Sandbox{Kind: Bubblewrap, Network: &online}}, t.TempDir(), get)
		if err != nil || strings.Contains(string(e.Stdout), "here") != online {
			t.Errorf("network %v: %v, %q", online, err, e.Stdout)
		}
	}
}

// TestASandboxedProgramIsAskedToEnd: SIGTERM reaches the program, and not bubblewrap, so it has its grace period.
func TestASandboxedProgramIsAskedToEnd(t *testing.T) {
	sandbox(t)
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e, err := Run(ctx, Spec{
		Path: "/bin/sh", Args: []string{"-c", `trap 'echo asked; exit 5' TERM; echo up; while :; do sleep 0.01; done`},
		Dir: t.TempDir(), Env: []string{"PATH=" + os.Getenv("PATH")}, Grace: time.Minute,
		Confinement: &Confinement{Sandbox: Sandbox{Kind: Bubblewrap}},
		OnStdout: func(line []byte) {
			if string(line) == "up" {
				cancel()
			}
		},
	})
	if !errors.Is(err, context.Canceled) || string(e.Stdout) != "up\nasked\n" || e.Code != 5 {
		t.Errorf("%v, code %d, %q %q", err, e.Code, e.Stdout, e.Stderr)
	}
}

// TestOneThatDoesNotEndIsKilledInItsSandbox, including a daemon that left its group and emptied its environment.
func TestOneThatDoesNotEndIsKilledInItsSandbox(t *testing.T) {
	sandbox(t)
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	mark := fmt.Sprintf("987%d", os.Getpid())
	e, err := Run(ctx, Spec{
		Path: "/bin/sh", Args: []string{"-c", `trap '' TERM; setsid env -i sleep ` + mark +
			` & echo up; while :; do sleep 0.01; done`}, Dir: t.TempDir(),
		Env: []string{"PATH=" + os.Getenv("PATH")}, Grace: 100 * time.Millisecond,
		Confinement: &Confinement{Sandbox: Sandbox{Kind: Bubblewrap}},
		OnStdout:    func([]byte) { cancel() },
	})
	if !errors.Is(err, context.Canceled) || e.Code != 137 {
		t.Errorf("%v, code %d, %q", err, e.Code, e.Stderr)
	}
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range commands {
		if text, _ := os.ReadFile(file); strings.Contains(string(text), mark) &&
			!strings.Contains(string(text), "sh\x00-c") {
			t.Errorf("%s is left: %q", file, text)
		}
	}
}

func TestLimitsHoldInTheSandbox(t *testing.T) {
	sandbox(t)
	t.Parallel()
	e, err := confinedTo(t, Confinement{Limits: Limits{FileMB: 1}, Sandbox: Sandbox{Kind: Bubblewrap}}, t.TempDir(),
		"head -c 3000000 /dev/zero >f")
	if err != nil || e.Hit.Limit != "file_mb" || !e.Hit.certain {
		t.Errorf("%v, code %d: %s", err, e.Code, e.Reason())
	}
}

// TestNothingRunsOutsideItsSandbox: without bubblewrap the check and a start fail with an error that says what to
// install.
func TestNothingRunsOutsideItsSandbox(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var ran bool
	box := Confinement{Sandbox: Sandbox{Kind: Bubblewrap}}
	_, err := Run(t.Context(), Spec{Path: "/bin/sh", Args: []string{"-c", "echo ran"}, Dir: "/", Confinement: &box,
		OnStdout: func([]byte) {
			ran = true
		}})
	if bad, ok := errors.AsType[*StartError](err); !ok || ran || !strings.Contains(bad.Reason, "install bubblewrap") {
		t.Errorf("ran: %v, %v", ran, err)
	}
}
