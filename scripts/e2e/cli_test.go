package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The command line as used by people and programs.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	s := up(t)
	s.agent("argv", argv, `"parameters_schema":{"type":"object","properties":{"n":{"type":"integer"},`+
		`"big":{"type":"number"},"list":{"type":"array","items":{"type":"string"}},"on":{"type":"boolean"},`+
		`"word":{"type":"string"},"obj":{"type":"object"}}}`)
	s.agent("works", `echo 'step 1' >&2; echo '{"b":1.10,"a":"x"}'`, "")
	s.agent("fails", `echo 'no such file' >&2; exit 7`, "")
	s.agent("gate", gate, "")
	s.worker()
	s.has(s.post("/agents", `{"name":"plain"}`), 201)

	// says runs ao, checks its exit code and returns its output.
	ao := func(s *stack, code int, args ...string) (stdout, stderr string) {
		s.t.Helper()
		stdout, stderr, got := s.ao(args...)
		if got != code {
			s.t.Errorf("ao %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, stdout, stderr)
		}
		return stdout, stderr
	}
	field := func(document, path string) string { return reply{text: document}.at(path) }

	s.story("run: waits, shows events, prints the result", func(s *stack) {
		out, errOut := ao(s, 0, "run", "works")
		s.same("the result", out, "{\n  \"b\": 1.10,\n  \"a\": \"x\"\n}\n")
		s.contains(errOut, "run_", "ses_", "step 1", "completed")
		_, errOut = ao(s, 1, "run", "fails")
		s.contains(errOut, "failed", "exit code 7", "no such file")
		_, errOut = ao(s, 0, "run", "-q", "works")
		if strings.Contains(errOut, "step 1") {
			t.Errorf("quiet, it says %s", errOut)
		}
		out, errOut = ao(s, 0, "--json", "run", "works")
		if !json.Valid([]byte(out)) || strings.Count(out, "\n") != 1 || errOut != "" {
			t.Errorf("as JSON: %s and %s", out, errOut)
		}
		s.same("its data", field(out, "result.result_data.a"), "x")
		out, _ = ao(s, 1, "--json", "run", "fails")
		s.same("its code", field(out, "error.error"), "command_failed")
		s.same("its exit code", field(out, "result.result_data.return_code"), "7")
	})

	s.story("parameters are typed by the agent's schema", func(s *stack) {
		out, _ := ao(s, 0, "--json", "run", "argv", "-p", "word=5", "-p", "n=3", "-p", "big=12345678901234567890.10",
			"-p", "list=a,b", "-p", "list=c", "-p", "on", "-p", `obj:={"b":1,"a":2.50}`)
		s.contains(out, `"parameters":{"word":"5","n":3,"big":12345678901234567890.10,"list":["a","b","c"],"on":true,`+
			`"obj":{"b":1,"a":2.50}}`)
		s.same("the arguments", field(out, "result.result_data.stdout"),
			"<--word>\n<5>\n<--n>\n<3>\n<--big>\n<12345678901234567890.10>\n<--list>\n<a,b,c>\n<--on>\n<--obj>\n"+
				"<{\"b\":1,\"a\":2.50}>\n")
		out, errs, code := s.exec("ao", `{"word":"from stdin","n":1.0}`, nil, "--json", "run", "argv", "--params", "-")
		if code != 0 {
			t.Errorf("ao run argv --params -: got exit code %d, %s; want 0", code, errs)
		}
		s.contains(out, `"parameters":{"word":"from stdin","n":1.0}`)
		s.write("params.json", `{"word":"from a file","n":1}`)
		out, _ = ao(s, 0, "--json", "run", "argv", "--params", "params.json", "-p", "n=2")
		s.contains(out, `"parameters":{"word":"from a file","n":2}`)

		_, errOut := ao(s, 1, "run", "argv", "-p", "n=many")
		s.contains(errOut, `parameter n must be an integer, got "many"`, "ao agents show")
		_, errOut = ao(s, 1, "run", "argv", "--params", `{"n":"x","on":5}`)
		s.contains(errOut, "Parameters do not match agent's parameters_schema", "$.n: 'x' is not of type 'integer'",
			"$.on: 5 is not of type 'boolean'", "ao agents show argv")
		_, errOut = ao(s, 1, "run", "nobody")
		s.contains(errOut, `There is no agent "nobody"`, "'ao agents' lists them")
		ao(s, 2, "run")
		ao(s, 2, "run", "argv", "works")
		ao(s, 2, "run", "argv", "--colour")
		ao(s, 2, "nonsense")
		ao(s, 2, "run", "argv", "--params", "no-such-file.json")
		_, errOut = ao(s, 1, "--json", "run", "nobody")
		s.same("an error for programs", field(errOut, "error"), "not_found")
	})

	s.story("detached, watched, waited for, stopped", func(s *stack) {
		out, _ := ao(s, 0, "run", "-d", "gate", "-p", "n=cli")
		id, session, _ := strings.Cut(strings.TrimSpace(out), "\t")
		s.waitGate("cli")
		out, errOut := ao(s, 4, "wait", id, "--timeout", "1s")
		s.same("what it printed", out, "")
		s.contains(errOut, "continues", "ao wait "+id)
		ao(s, 1, "result", id)

		// Ctrl-C ends the wait, not the run.
		cmd := exec.Command(filepath.Join(bin, "ao"), "wait", id)
		cmd.Env, cmd.SysProcAttr = append(os.Environ(), s.env...), &syscall.SysProcAttr{Setpgid: true}
		var errs lockedBuffer
		cmd.Stderr = &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		s.until("it waits", func() bool {
			return strings.Contains(errs.String(), "started on")
		})
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
		if cmd.ProcessState.ExitCode() != 130 {
			t.Errorf("interrupted: exit code %d, %s", cmd.ProcessState.ExitCode(), errs.String())
		}
		if st := s.get("/runs/" + id).at("status"); st != "running" && st != "claimed" {
			t.Errorf("after Ctrl-C the run is %s", st)
		}

		s.openGate("cli")
		out, _ = ao(s, 0, "wait", id)
		s.same("its result", out, "{\n  \"gate\": \"cli\"\n}\n")
		for _, of := range []string{id, session} {
			out, _ = ao(s, 0, "result", of)
			s.same("its result again", out, "{\n  \"gate\": \"cli\"\n}\n")
			out, _ = ao(s, 0, "show", of)
			s.contains(out, "gate", id)
			out, _ = ao(s, 0, "events", of)
			s.contains(out, "started on rnr_", "result", "completed")
		}
		out, _ = ao(s, 0, "--json", "events", session)
		s.same("events, one a line", field(strings.Split(out, "\n")[0], "event_type"), "run_start")
		out, _ = ao(s, 0, "--json", "show", id)
		s.same("shown for programs", field(out, "run_id"), id)

		out, _ = ao(s, 0, "--json", "run", "-d", "gate", "-p", "n=cli2")
		id = field(out, "run_id")
		s.waitGate("cli2")
		out, _ = ao(s, 0, "stop", id)
		s.contains(out, id)
		ao(s, 3, "wait", id)
		ao(s, 1, "stop", s.get("/runs?status=completed").at("runs.0.run_id"))
		ao(s, 2, "show", "x*y")
		ao(s, 1, "show", "run_none")
	})

	s.story("why a run waits, why it ended so, and how everything stands", func(s *stack) {
		out, _ := ao(s, 0, "--json", "run", "-d", "gate", "-p", "n=why")
		id := field(out, "run_id")
		s.waitGate("why")
		s.status(id, "running")
		out, _ = ao(s, 0, "explain", id)
		s.contains(out, "It has been running on runner rnr_", "accepted", "queued", "claimed", "by runner rnr_",
			"started")
		out, _ = ao(s, 0, "top", "--once")
		s.contains(out, "1 running", "rnr_", "online", "host-1", id, "gate", "procedural.")
		s.openGate("why")
		ao(s, 0, "wait", "-q", id)
		out, _ = ao(s, 0, "--json", "explain", id)
		s.same("its end", field(out, "story.4.what"), "completed")
		s.same("it waits for nothing", field(out, "waits_for"), "")
		out, _ = ao(s, 0, "--json", "run", "-d", "plain", "--prompt", "x")
		id = field(out, "run_id")
		out, _ = ao(s, 0, "explain", id)
		s.contains(out, "no_matching_runner", "executor_type is procedural, wanted autonomous",
			"It waits for a runner that matches type=autonomous: none of 1 online runner matches")
		ao(s, 0, "stop", id)
		out, _ = ao(s, 0, "explain", id)
		s.contains(out, "It was stopped", "before a runner claimed it", "Stopped before it began")
		ao(s, 2, "explain", "x*y")
		ao(s, 1, "explain", "run_none")
	})

	s.story("a session followed live", func(s *stack) {
		out, _ := ao(s, 0, "run", "-d", "gate", "-p", "n=follow")
		id, session, _ := strings.Cut(strings.TrimSpace(out), "\t")
		s.waitGate("follow")
		cmd := exec.Command(filepath.Join(bin, "ao"), "events", "-f", session)
		cmd.Env = append(os.Environ(), s.env...)
		var errOut lockedBuffer
		cmd.Stdout, cmd.Stderr = &errOut, &errOut
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		s.until("the start is shown", func() bool { return strings.Contains(errOut.String(), "started on") })
		s.openGate("follow")
		s.until("the end is shown", func() bool { return strings.Contains(errOut.String(), "completed") })
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
		s.has(s.get("/runs/"+id), 200, `"status":"completed"`)
	})

	s.story("a list of runs followed live, over a restart of the coordinator", func(s *stack) {
		cmd := exec.Command(filepath.Join(bin, "ao"), "runs", "--follow", "--agent", "gate", "--limit", "1", "--json")
		cmd.Env = append(os.Environ(), s.env...)
		var errOut lockedBuffer
		cmd.Stdout, cmd.Stderr = &errOut, &errOut
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		s.until("the list is shown", func() bool { return strings.Contains(errOut.String(), "run_") })
		out, _ := ao(s, 0, "--json", "run", "-d", "gate", "-p", "n=list")
		id := field(out, "run_id")
		states := func() (all string) {
			for line := range strings.Lines(errOut.String()) {
				if strings.HasSuffix(line, "\n") && field(line, "run_id") == id {
					all += field(line, "status") + " "
				}
			}
			return all
		}
		s.until("the run is shown", func() bool { return strings.HasSuffix(states(), "running ") })
		s.coordinator.kill()
		s.coordinator.start()
		s.ready()
		s.openGate("list")
		// Until the next heartbeat a restarted coordinator shows the run as claimed.
		s.until("its end is shown", func() bool { return strings.HasSuffix(states(), " completed ") })
		cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("Ctrl-C: %v: %s", err, errOut.String())
		}
	})

	s.story("lists and checks", func(s *stack) {
		out, _ := ao(s, 0, "agents")
		s.contains(out, "argv", "works", "fails", "plain")
		out, _ = ao(s, 0, "agents", "show", "argv")
		s.contains(out, "big", "integer")
		out, _ = ao(s, 0, "runners")
		s.contains(out, "rnr_", "online", "host-1", "test")
		out, _ = ao(s, 0, "runs", "--status", "failed")
		s.contains(out, "run_", "fails", "failed")
		out, _ = ao(s, 0, "--json", "runs", "--limit", "2")
		if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != 2 || !json.Valid([]byte(lines[0])) {
			t.Errorf("as JSON: %s", out)
		}
		out, _ = ao(s, 0, "sessions")
		s.contains(out, "ses_", "finished")
		ao(s, 2, "runs", "--limit", "0")
		_, errOut := ao(s, 1, "runs", "--status", "done")
		s.contains(errOut, "status")

		before := s.runs("")
		out, _ = ao(s, 0, "validate", "argv", "-p", "n=1")
		s.same("valid", out, "valid\n")
		_, errOut = ao(s, 0, "validate", "plain", "--prompt", "x")
		s.contains(errOut, "no matching runner is online")
		_, errOut = ao(s, 1, "validate", "argv", "--params", `{"n":"x"}`)
		s.contains(errOut, "$.n")
		if n := s.runs(""); n != before {
			t.Errorf("checking started %d runs", n-before)
		}
		ao(s, 0, "health")
		for _, shell := range []string{"bash", "zsh", "fish"} {
			if out, _ := ao(s, 0, "completion", shell); len(out) < 500 {
				t.Errorf("completion of %s: %s", shell, out)
			}
		}
		out, _ = ao(s, 0, "__complete", "run", "")
		s.contains(out, "argv", "works", "plain")
		for _, c := range []string{"run", "runs", "show", "explain", "result", "wait", "stop", "events", "top",
			"agents", "runners", "validate", "completion"} {
			if out, _ := ao(s, 0, c, "--help"); !strings.Contains(out, "Usage:") {
				t.Errorf("ao %s --help: %s", c, out)
			}
		}
	})

	s.story("nobody is there", func(s *stack) {
		_, errOut, code := s.exec("ao", "", []string{"AO_URL=http://127.0.0.1:1"}, "agents")
		if code != 5 {
			t.Errorf("exit code %d: %s", code, errOut)
		}
		s.contains(errOut, "scripts/up", "AO_URL")
		ao(s, 5, "--url", "http://127.0.0.1:1", "--json", "runs")
		ao(s, 2, "--url", "not a url", "runs")
	})

	s.story("a coordinator that restarts while ao waits", func(s *stack) {
		cmd := exec.Command(filepath.Join(bin, "ao"), "run", "gate", "-p", "n=restart")
		cmd.Env = append(os.Environ(), s.env...)
		var out bytes.Buffer
		var errOut lockedBuffer
		cmd.Stdout, cmd.Stderr = &out, &errOut
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		s.waitGate("restart")
		s.coordinator.kill()
		s.coordinator.start()
		s.ready()
		s.openGate("restart")
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, errOut.String())
		}
		s.same("the result", out.String(), "{\n  \"gate\": \"restart\"\n}\n")
	})
}
