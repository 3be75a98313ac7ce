package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ao/nats/natstest"
)

// TestTakeover: the line that the page shows, run as it is printed, starts a worker and kills it during its runs. The
// page shows how another one takes them over.
func TestTakeover(t *testing.T) {
	t.Parallel()
	nats := freeAddr(t)
	s := ownStack(t, "AO_NATS_LISTEN="+nats, "RUN_LEASE=3")
	_, session := s.run(t, `{"agent_name":"show-me","prompt":"@say here"}`)
	p := open(t, s, "/ui/?first="+session)
	p.click("Kill a worker yourself")
	p.has("Run this in another terminal")
	line := p.copied("Copy the line")

	terminal := inCheckout(t, line)
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

// TestStartWorker: before the first runner, the pages of runners and queues show the same line. Run as it is printed,
// it starts a worker. Where no line works, there is none.
func TestStartWorker(t *testing.T) {
	t.Parallel()
	nats := natstest.Proc(t).URL()
	s := &stack{program: "coordinator"}
	t.Cleanup(s.end)
	s.start(t, "AO_NATS_URL="+nats)
	p := open(t, s, "/ui/queues")
	p.has("No queues yet")
	line := p.copied("Copy the line")
	p = open(t, s, "/ui/runners")
	p.has("No runners yet")
	if other := p.copied("Copy the line"); other != line {
		t.Errorf("the page of runners says %s, that of queues %s", other, line)
	}
	inCheckout(t, line)
	p.until(`document.querySelectorAll(".slots").length === 2`) // of the profiles procedural and test
}

// TestNoLineToStartWorker: NATS without a listener takes no second worker.
func TestNoLineToStartWorker(t *testing.T) {
	t.Parallel()
	s := ownStack(t)
	var list struct {
		Runners []struct {
			ID string `json:"runner_id"`
		}
	}
	if err := json.Unmarshal([]byte(s.call(t, "GET", "/runners", "", 200)), &list); err != nil {
		t.Fatal(err)
	}
	for _, r := range list.Runners {
		s.call(t, "DELETE", "/runners/"+r.ID, "", 202)
	}
	p := open(t, s, "/ui/runners")
	p.has("Whoever runs this coordinator starts a worker")
	if eval[bool](p, `document.querySelector("main").innerText.includes("ao worker")`) {
		t.Error("the page shows a line that cannot work")
	}
}

var buildCheckout = sync.OnceValues(func() (folder string, err error) {
	folder = filepath.Join(bin, "checkout")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(folder, "bin")+"/",
		"./scripts/allinone/ao")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return folder, nil
})

// inCheckout starts a line in the folder of scripts/up, and kills what it left at the end of the test.
func inCheckout(t *testing.T, line string) *exec.Cmd {
	t.Helper()
	folder, err := buildCheckout()
	if err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	terminal := exec.Command("sh", "-c", line)
	terminal.Dir, terminal.Stdout, terminal.Stderr = folder, &logged, &logged
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
	return terminal
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
