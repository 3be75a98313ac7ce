package serve_test

import (
	"strings"
	"testing"

	"ao/nats/subject"
)

// TestARollupOnRuns: a stream that allows rollups accepts a second message of a subject that takes one. The coordinator
// creates RUNS without, and the doctor reports when somebody switches it on.
func TestARollupOnRuns(t *testing.T) {
	t.Parallel()
	s := start(t)
	js, err := s.nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	info, err := js.StreamInfo(subject.Runs)
	if err != nil {
		t.Fatal(err)
	}
	const finding = "stream RUNS allows rollups"
	if g := s.get("/doctor"); info.Config.AllowRollup || g.status != 200 || strings.Contains(g.body, finding) {
		t.Errorf("RUNS is created with rollups %v, and the doctor says %s", info.Config.AllowRollup, g.body)
	}
	info.Config.AllowRollup = true
	if _, err := js.UpdateStream(&info.Config); err != nil {
		t.Fatal(err)
	}
	if g := s.get("/doctor"); !strings.Contains(g.body, `"verdict":"fail","what":"`+finding) {
		t.Errorf("the doctor says %s", g.body)
	}
}
