// Package executors has example executors that users copy: each is a program of its own, and these are its tests.
package executors

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ao/shared/executor"
	"ao/shared/executor/conformance"
	"ao/worker/profile"
	"ao/worker/program"
	"ao/worker/testexec"
)

// TestMain turns the test binary into the test executor if EXECUTOR is set.
func TestMain(m *testing.M) {
	if os.Getenv("EXECUTOR") != "" {
		executor.Program(testexec.Run)
	}
	os.Exit(m.Run())
}

// exampleProgram returns the program of an example's profile; it skips the test if its interpreter is missing.
func exampleProgram(t *testing.T, name, needs string) (string, profile.Profile) {
	t.Helper()
	if _, err := exec.LookPath(needs); err != nil {
		t.Skipf("%s is not on this machine, so the example %s is not tried", needs, name)
	}
	p, err := profile.Read("../profiles", name)
	if err != nil {
		t.Fatal(err)
	}
	file, err := p.Program()
	if err != nil {
		t.Fatal(err)
	}
	return file, p
}

// TestExamplesConform: each example passes every check, including the optional ones.
func TestExamplesConform(t *testing.T) {
	for _, tt := range []struct {
		profile, needs, lifecycle string
		env                       []string
	}{
		{"example-sh", "awk", executor.Oneshot, nil},
		{"example-py", "python3", executor.Oneshot, nil},
		{"example-py", "python3", executor.Persistent, nil},
		{"", "sh", executor.Oneshot, []string{"EXECUTOR=1"}},
	} {
		t.Run(cmp.Or(tt.profile, "ao-test-exec")+" "+tt.lifecycle, func(t *testing.T) {
			t.Parallel()
			file, p := os.Args[0], profile.Profile{}
			if tt.profile != "" {
				file, p = exampleProgram(t, tt.profile, tt.needs)
			}
			if tt.lifecycle == executor.Persistent && p.Lifecycle != tt.lifecycle {
				t.Errorf("the profile's lifecycle is %q", p.Lifecycle)
			}
			r, err := conformance.Run(t.Context(), conformance.Config{Command: []string{file},
				Persistent: tt.lifecycle == executor.Persistent, Env: tt.env})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range r.Checks {
				if c.Result != conformance.Pass {
					t.Errorf("%s: %s: %s", c.Result, c.Name, c.Detail)
				}
			}
		})
	}
}

// turns runs prompts as one session, with the lifecycle of the program's profile, and returns the answers.
func turns(t *testing.T, file string, persistent bool, prompts ...string) (answers []string) {
	t.Helper()
	pool := program.NewPool(program.PoolConfig{})
	t.Cleanup(func() { pool.Close(t.Context()) })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for i, prompt := range prompts {
		v := executor.Invocation{SchemaVersion: executor.Version, Mode: executor.Start,
			SessionID: "ses_1", RunID: "run_" + string(rune('1'+i)), AgentName: "a",
			Attempt: 1, Prompt: prompt, ProjectDir: t.TempDir(), Parameters: []byte(`{}`)}
		if i > 0 {
			v.Mode, v.PreviousRunID, v.ProjectDir = executor.Resume, "run_"+string(rune('0'+i)),
				filepath.Dir(v.ProjectDir)
		} else {
			v.ProjectDir = filepath.Dir(v.ProjectDir)
		}
		j := program.Job{Invocation: v, Command: file, Env: []string{"PATH=" + os.Getenv("PATH"),
			"HOME=" + os.Getenv("HOME"), executor.EnvSessionID + "=ses_1"}}
		do := program.Run
		if persistent {
			do = pool.Run
		}
		switch o := do(ctx, j); {
		case o.Error != nil:
			answers = append(answers, o.Error.Code+": "+o.Error.Message)
		case o.Result == nil || o.Result.Text == nil:
			answers = append(answers, string(o.Status))
		default:
			answers = append(answers, *o.Result.Text)
		}
	}
	return answers
}

func TestEchoReturnsItsPrompt(t *testing.T) {
	t.Parallel()
	file, _ := exampleProgram(t, "example-sh", "awk")
	for _, prompt := range []string{"hello", "a \"quoted\" word, a back\\slash\\\\", "two\nlines\tand a tab",
		"ünïcödé 世界 👩‍🚀", `"prompt":"fake"`, `ends with a backslash \`, "$(touch x) `touch y` %s %n"} {
		if got := turns(t, file, false, prompt); got[0] != prompt {
			t.Errorf("got %q, want %q", got[0], prompt)
		}
	}
}

func TestChatRemembers(t *testing.T) {
	t.Parallel()
	file, _ := exampleProgram(t, "example-py", "python3")
	got := strings.Join(turns(t, file, true, "my name is Ada", "fail please", "who am I?"), "\n")
	want := `Turn 1. You said: my name is Ada.
model_failed: I was asked to fail
Turn 2. You said: who am I?. You began with: my name is Ada`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
