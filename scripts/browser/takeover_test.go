package browser

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestTakeover: the line that the page shows, run as it is printed, starts a worker and kills it during its runs. The
// page shows how another one takes them over.
func TestTakeover(t *testing.T) {
	t.Parallel()
	nats := freeAddr(t)
	s := ownStack(t, "AO_NATS_LISTEN="+nats, "RUN_LEASE=3")
	checkout := t.TempDir()
	build := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(checkout, "bin")+"/",
		"./scripts/allinone/ao")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, session := s.run(t, `{"agent_name":"show-me","prompt":"@say here"}`)
	p := open(t, s, "/ui/?first="+session)
	p.click("Kill a worker yourself")
	p.has("Run this in another terminal")
	line := p.copied("Copy the line")

	var logged bytes.Buffer
	terminal := exec.Command("sh", "-c", line)
	terminal.Dir, terminal.Stdout, terminal.Stderr = checkout, &logged, &logged
	terminal.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	terminal.WaitDelay = time.Second
	if err := terminal.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-terminal.Process.Pid, syscall.SIGKILL)
		if t.Failed() {
			t.Logf("%s\n%s", line, tail(logged.String(), 2000))
		}
	})
	eventually(t, "the second worker is there", func() bool {
		return strings.Count(s.call(t, "GET", "/runners", "", 200), `"executor_profile":"test"`) == 2
	})
	p.click("Start 16 runs")
	p.has("of 16 completed")
	p.until(`document.querySelectorAll(".kill ul.links a").length === 2`) // both workers have some
	_ = terminal.Wait()
	p.has("taken over from the worker that was killed")
	p.has("16 of 16 completed")
	p.click("Prove it")
	p.has("Nothing was lost, nothing was done twice")
}

// TestUsage: an executor's tokens and costs are added up; without any there is a dash, never a zero.
func TestUsage(t *testing.T) {
	s := sharedStack(t)
	s.agent(t, "spender")
	noUsage, _ := s.run(t, `{"agent_name":"spender","prompt":"@say nothing of it"}`)
	s.ended(t, noUsage)
	p := open(t, s, "/ui/runs/"+noUsage)
	p.until(`/Usage\s*–/.test(document.querySelector("main").innerText)`)
	telling, _ := s.run(t, `{"agent_name":"spender","prompt":"@metadata {\"usage\":{\"input_tokens\":1200,`+
		`\"output_tokens\":34},\"total_cost_usd\":0.5}\n@metadata {\"total_cost_usd\":0.25}\n@say done"}`)
	s.ended(t, telling)
	p.goTo("/ui/runs/" + telling)
	p.until(`/Usage\s*1.?200 in · 34 out tokens · \$0\.7500/.test(document.querySelector("main").innerText)`)
}
