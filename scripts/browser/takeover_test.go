package browser

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestTakeover: a worker is killed during its runs, and the page shows how another one takes them over.
func TestTakeover(t *testing.T) {
	t.Parallel()
	nats := freeAddr(t)
	s := ownStack(t, "AO_NATS_LISTEN="+nats, "RUN_LEASE=3")
	var logged bytes.Buffer
	worker := exec.Command(filepath.Join(bin, "worker"), "-x", "test")
	worker.Env = append(s.env, "AO_NATS_URL=nats://"+nats, "AO_DATA_DIR="+t.TempDir(), "AO_HOSTNAME=second")
	worker.Stdout, worker.Stderr = &logged, &logged
	worker.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() {
		_ = syscall.Kill(-worker.Process.Pid, syscall.SIGKILL)
		_ = worker.Wait()
	}
	t.Cleanup(func() {
		kill()
		if t.Failed() {
			t.Logf("the second worker's log ends:\n%s", tail(logged.String(), 2000))
		}
	})
	eventually(t, "the second worker is there", func() bool {
		return bytes.Contains([]byte(s.call(t, "GET", "/runners", "", 200)), []byte(`"second"`))
	})
	_, session := s.run(t, `{"agent_name":"demo","prompt":"@say here"}`)

	p := open(t, s, "/ui/?first="+session)
	p.click("Kill a worker yourself")
	p.has("PATH=bin:$PATH ao worker -x test --nats-url nats://" + nats + " & sleep 12; kill -9 $!")
	p.click("Start 16 runs")
	p.has("of 16 completed")
	p.until(`document.querySelectorAll(".kill ul.links a").length === 2`) // both workers have some
	kill()
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
