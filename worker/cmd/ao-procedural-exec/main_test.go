package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ao/shared/clock/clocktest"
)

// TestMain turns the test binary into the program if EXECUTOR is set, and into its guard.
func TestMain(m *testing.M) {
	if os.Getenv("EXECUTOR") != "" || os.Getenv("AGENT_ORCHESTRATOR_GUARD") != "" {
		main()
	}
	os.Exit(m.Run())
}

func invocation(agent, params, dir, blueprint, config string) string {
	return fmt.Sprintf(`{"schema_version":"2.2","mode":"start","session_id":"ses_1","run_id":"run_1","parameters":%s,`+
		`"project_dir":%q,"agent_name":%q,"agent_blueprint":%s,"executor_config":%s}`,
		params, dir, agent, blueprint, config)
}

func TestProgram(t *testing.T) {
	dir := t.TempDir()
	agents := filepath.Join(dir, "agents")
	os.Mkdir(agents, 0o700)
	for name, text := range map[string]string{
		"hello.json":  `{"name":"hello","description":"","type":"procedural","command":"./hello"}`,
		"hello":       "#!/bin/sh\necho working >&2\nprintf '{\"args\":\"%s\",\"n\":1e400}' \"$*\"\n",
		"broken.json": `{"name":"broken","description":"","type":"procedural","command":"./gone"}`,
		"fails.json":  `{"name":"fails","description":"","type":"procedural","command":"./fails"}`,
		"fails":       "#!/bin/sh\necho bad input >&2\nexit 3\n",
	} {
		if err := os.WriteFile(filepath.Join(agents, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	config := fmt.Sprintf(`{"agents_dir":%q}`, agents)
	event := func(text string) string {
		return `{"type":"event","event_type":"message","role":"system","content":[{"type":"text","text":"` + text +
			`"}]}` + "\n"
	}
	for _, tt := range []struct {
		name, in       string
		code           int
		stdout, stderr string
	}{
		{"of a folder", invocation("hello", `{"b":1,"a":true}`, dir, `{}`, config), 0,
			event("working") +
				`{"type":"result","result_type":"procedural","result_text":null,"result_data":{"args":"--b 1 --a",` +
				`"n":1e400},"exit_code":0}` + "\n", ""},
		{"absolute", invocation("any", `{}`, dir, fmt.Sprintf(`{"command":%q}`, agents+"/hello"), `{}`), 0,
			event("working") +
				`{"type":"result","result_type":"procedural","result_text":null,"result_data":{"args":"","n":1e400},` +
				`"exit_code":0}` + "\n", ""},
		{"on PATH", invocation("any", `{}`, dir, `{"command":"true"}`, `null`), 0,
			`{"type":"result","result_type":"procedural","result_text":null,"result_data":{"return_code":0,` +
				`"stdout":"","stderr":""},"exit_code":0}` + "\n", ""},
		{"fails", invocation("fails", `{}`, dir, `{}`, config), 3,
			event("bad input") +
				`{"type":"result","result_type":"procedural","result_text":null,"result_data":{"return_code":3,` +
				`"stdout":"","stderr":"bad input\n"},"exit_code":3,"error":{"error":"command_failed","message":"bad ` +
				`input","exit_code":3}}` + "\n", "bad input\n"},
		{"unknown", invocation("other", `{}`, dir, `{}`, config), 1, "", `agent "other" is not in AGENTS`},
		{"broken", invocation("broken", `{}`, dir, `{}`, config), 1, "",
			`agent "broken" (AGENTS/broken.json): command "./gone": AGENTS/gone does not exist`},
		{"relative", invocation("any", `{}`, dir, `{"command":"./hello"}`, `{}`), 1, "", "executor_config.agents_dir"},
		{"odd configuration", invocation("any", `{}`, dir, `{}`, `{"colour":1}`), 1, "",
			`executor_config: Unknown field "colour"`},
		{"bad parameters", invocation("hello", `{"a b":1}`, dir, `{}`, config), 1, "", `parameter "a b"`},
		{"nothing", "", 2, "", "invocation on stdin"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := exec.CommandContext(t.Context(), os.Args[0])
			c.Env = []string{"EXECUTOR=1", "PATH=" + os.Getenv("PATH")}
			c.Stdin = strings.NewReader(tt.in)
			var out, errs bytes.Buffer
			c.Stdout, c.Stderr = &out, &errs
			c.Run()
			log := strings.ReplaceAll(errs.String(), agents, "AGENTS")
			if c.ProcessState.ExitCode() != tt.code || out.String() != tt.stdout || !strings.Contains(log, tt.stderr) {
				t.Errorf("got  %d %s%q\nwant %d %s%q", c.ProcessState.ExitCode(), out.String(), log, tt.code,
					tt.stdout, tt.stderr)
			}
		})
	}
}

// TestKilledProgramLeavesNothing kills the program and checks that its command ends.
func TestKilledProgramLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	command := filepath.Join(dir, "command")
	os.WriteFile(command, []byte("#!/bin/sh\necho $$ >pid.new\nmv pid.new pid\nexec sleep 100\n"), 0o700)
	c := exec.Command(os.Args[0])
	c.Env = []string{"EXECUTOR=1", "PATH=" + os.Getenv("PATH")}
	c.Stdin = strings.NewReader(invocation("any", `{}`, dir, fmt.Sprintf(`{"command":%q}`, command), `{}`))
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	clocktest.Until(t, "the command runs", func() bool {
		raw, _ := os.ReadFile(filepath.Join(dir, "pid"))
		n, _ := fmt.Sscan(string(raw), &pid)
		return n == 1
	})
	c.Process.Kill()
	c.Wait()
	clocktest.Until(t, "the command is gone", func() bool {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil && syscall.Kill(pid, 0) != nil || strings.Contains(string(raw), ") Z ")
	})
}
