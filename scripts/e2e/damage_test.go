package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ao/coordinator/access"
	"ao/nats/natstest"
	"ao/nats/subject"
)

// TestADamageIsAcceptedOrRestored: a record of RUNS is removed. 'ao verify' says so until an admin accepts it, or until
// a backup is restored. Who accepts is audited.
func TestADamageIsAcceptedOrRestored(t *testing.T) {
	t.Parallel()
	if onCluster {
		t.Skip("it removes a record behind the backs of all, which is the same on a cluster")
	}
	first := natstest.Proc(t, natstest.SyncAlways)
	s := prepare(t, first.URL(), "AO_NATS_SYNC=always")
	file := filepath.Join(s.dir, "tokens")
	token := map[string]string{}
	for _, scope := range []string{"read", "run", "admin"} {
		var err error
		token[scope], err = access.Create(file, "the-"+scope, []string{scope}, time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
	}
	s.token = token["admin"]
	s.env = append(s.env, "AO_API_TOKENS="+file, "AO_TOKEN="+s.token)
	s.agent("quick", `echo '{"quick":true}'`, "")
	s.coordinator = launch(t, "coordinator", s.dir, s.env)
	s.ready()
	s.worker()
	id := s.run(`{"agent_name":"quick","max_attempts":3}`)
	s.status(id, "completed")
	backup := filepath.Join(s.dir, "all.backup")
	if out, errs, code := s.ao("backup", backup); code != 0 {
		t.Fatalf("ao backup: exit code %d\n%s%s", code, out, errs)
	}
	last := s.run(`{"agent_name":"quick"}`)
	s.status(last, "completed")

	js, err := first.Conn(t).JetStream()
	if err != nil {
		t.Fatal(err)
	}
	session := s.get("/runs/" + last).at("session_id")
	end, err := js.GetLastMsg(subject.Runs, subject.Ended(subject.Partition(session), last, "*"))
	if err != nil {
		t.Fatal(err)
	}
	s.until("the mark has the last record", func() bool {
		raw, _ := os.ReadFile(filepath.Join(s.dir, "data", "highwater.json"))
		return strings.Contains(string(raw), fmt.Sprintf(`"sequence":%d,`, end.Sequence))
	})
	if err := js.DeleteMsg(subject.Runs, end.Sequence); err != nil {
		t.Fatal(err)
	}
	s.until("ao verify names the damage", func() bool {
		out, _, code := s.ao("verify")
		return code == 1 && strings.Contains(out, "1 record is missing (not accepted)") &&
			strings.Contains(out, "1 runs failed with history_damaged")
	})
	if r := s.ended(last); r.at("error.error") != "history_damaged" {
		t.Errorf("the run without its end: %s", r.text)
	}
	for _, scope := range []string{"read", "run"} {
		_, errs, code := s.exec("ao", "", []string{"AO_TOKEN=" + token[scope]}, "verify", "--accept-damage")
		if code != 1 || !strings.Contains(errs, "admin") {
			t.Errorf("accepted with scope %s: exit code %d, %s", scope, code, errs)
		}
	}
	if _, _, code := s.ao("verify"); code != 1 {
		t.Errorf("after refusals: exit code %d", code)
	}

	second := natstest.Proc(t, natstest.SyncAlways) // at this one the backup is restored
	on := []string{"AO_NATS_URL=" + second.URL()}
	if out, errs, code := s.exec("ao", "", on, "restore", backup); code != 0 {
		t.Fatalf("ao restore: exit code %d\n%s%s", code, out, errs)
	}
	if out, errs, code := s.ao("verify", "--accept-damage"); code != 0 || !strings.Contains(out, "(accepted)") {
		t.Errorf("accepted by an admin: exit code %d\n%s%s", code, out, errs)
	}
	s.until("the audit names all who tried", func() bool { // an entry may be written behind its answer
		r := s.get("/audit?action=damage.accept")
		return strings.Contains(r.text, `"the-read"`) && strings.Contains(r.text, `"the-run"`) &&
			strings.Contains(r.text, `"the-admin"`)
	})
	s.status(s.run(`{"agent_name":"quick"}`), "completed")
	accepted := filepath.Join(s.dir, "accepted.backup")
	if out, errs, code := s.ao("backup", accepted); code != 0 {
		t.Fatalf("ao backup: exit code %d\n%s%s", code, out, errs)
	}

	s.coordinator.stop() // its data folder has the mark of the first NATS
	s.env = append(s.env, on...)
	s.coordinator = launch(t, "coordinator", s.dir, s.env)
	s.ready()
	if out, errs, code := s.ao("verify"); code != 0 || strings.Contains(out, "damage") {
		t.Errorf("ao verify after a restore: exit code %d\n%s%s", code, out, errs)
	}
	s.checkGet("/runs/"+id, 200, `"completed"`)
	if r := s.get("/runs/" + last); r.code != 404 {
		t.Errorf("a run from after the backup: %d %s", r.code, r.text)
	}

	third := natstest.Proc(t, natstest.SyncAlways) // the backup of the accepted damage
	on = []string{"AO_NATS_URL=" + third.URL()}
	if out, errs, code := s.exec("ao", "", on, "restore", accepted); code != 0 {
		t.Fatalf("ao restore: exit code %d\n%s%s", code, out, errs)
	}
	s.coordinator.stop()
	s.env = append(s.env, on...)
	s.coordinator = launch(t, "coordinator", s.dir, s.env)
	s.ready()
	if out, errs, code := s.ao("verify"); code != 0 || !strings.Contains(out, "1 record is missing (accepted)") {
		t.Errorf("ao verify after a restore of an accepted damage: exit code %d\n%s%s", code, out, errs)
	}
}
