package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// runSealingWorker starts sh as itself and sealed, and prints whether it can read each one's environment.
func runSealingWorker() {
	check := func(s Spec) {
		s.Args, s.Env = []string{"-c", "echo $$; read -r line; echo $KEY"}, []string{"KEY=secret"}
		input, done := make(chan Piece), make(chan struct{})
		s.Input, s.OnStdout = input, func(line []byte) {
			if string(line) == "secret" {
				return
			}
			env, err := os.ReadFile("/proc/" + string(line) + "/environ")
			fmt.Printf("%s, KEY in %t, %v\n", s.Path, strings.Contains(string(env), "KEY=secret"), err)
			go func() { input <- Piece{[]byte("on\n"), func(error) { close(done) }} }()
		}
		e, err := Run(context.Background(), s)
		<-done
		fmt.Printf("%d %v %t\n", e.Code, err, strings.Contains(string(e.Stdout), "secret"))
	}
	check(Spec{Path: "/bin/sh"})
	sealed, err := Seal("/bin/sh")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	check(Spec{Path: "/bin/sh", Sealed: sealed})
	os.Exit(0)
}

// TestSealedProgramIsPrivate: a process of the same user cannot read a sealed program's environment, although the
// program did nothing about it.
func TestSealedProgramIsPrivate(t *testing.T) {
	t.Parallel()
	program, err := searchProgram()
	if err != nil {
		t.Fatal(err)
	}
	worker := exec.Command(program)
	worker.Dir, worker.Env = nobodyDir(t), []string{"PROCESS_TEST_SEALER=1"}
	if os.Getuid() == 0 {
		worker.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	out, err := worker.CombinedOutput()
	lines := strings.Split(string(out), "\n")
	if err != nil || len(lines) != 5 || lines[0] != "/bin/sh, KEY in true, <nil>" || lines[1] != "0 <nil> true" ||
		!strings.HasPrefix(lines[2], "/bin/sh, KEY in false, ") || !strings.HasSuffix(lines[2], "permission denied") ||
		lines[3] != "0 <nil> true" {
		t.Errorf("%v\n%s", err, out)
	}
}
