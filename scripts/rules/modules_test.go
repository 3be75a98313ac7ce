package rules

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestModulesOfUp: what scripts/up compiles has these modules and no others. Each costs everybody who starts the
// system for the first time: performance.md says how much. nats-server and the standard library are the floor.
func TestModulesOfUp(t *testing.T) {
	want, err := os.ReadFile("testdata/modules-of-up")
	if err != nil {
		t.Fatal(err)
	}
	list := exec.Command("go", "list", "-tags", "nomsgpack", "-deps", "-f",
		"{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "./scripts/allinone/ao")
	list.Dir, list.Stderr = "../..", os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	have := strings.Fields(string(out))
	slices.Sort(have)
	have = slices.Compact(have)
	known := strings.Fields(string(want))
	for _, m := range have {
		if !slices.Contains(known, m) {
			t.Errorf("what scripts/up compiles has gained the module %s: who needs it? If it is worth it, add it "+
				"to testdata/modules-of-up", m)
		}
	}
	for _, m := range known {
		if !slices.Contains(have, m) {
			t.Errorf("what scripts/up compiles no longer has the module %s: remove it from testdata/modules-of-up", m)
		}
	}
	script, err := os.ReadFile("../up")
	if err != nil || !strings.Contains(string(script), "programs=(./scripts/allinone/ao)\n") ||
		!strings.Contains(string(script), "-tags nomsgpack") {
		t.Errorf("scripts/up builds something else than this test looks at: %v", err)
	}
}
