package monitoring_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/goccy/go-yaml"
)

// unitTests is a file of unit tests for promtool.
const unitTests = "rules_test.yml"

// TestAlertsFire runs the unit tests of the alerts with promtool, which uses Prometheus's own engine.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	program, err := filepath.Abs("../../bin/promtool")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		program, err = exec.LookPath("promtool")
		if err != nil {
			t.Skip("THE ALERTS ARE NOT EVALUATED: there is no promtool in bin/ or on PATH; scripts/get-promtool " +
				"builds it with Go alone")
		}
	}
	for _, args := range [][]string{{"check", "rules", "rules.yml"}, {"test", "rules", unitTests}} {
		if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// Each alert must fire in one unit test and not fire in another.
func TestEachAlertHasItsUnitTests(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(unitTests)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tests []struct {
			Tests []struct {
				Alert string `yaml:"alertname"`
				Fires []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		} `yaml:"tests"`
	}
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, group := range file.Tests {
		for _, one := range group.Tests {
			if len(one.Fires) > 0 {
				fires[one.Alert] = true
			} else {
				quiet[one.Alert] = true
			}
		}
	}
	_, alerts := rules(t)
	for _, a := range alerts {
		if !fires[a] || !quiet[a] {
			t.Errorf("%s: %s must fire in one test (got %v) and not fire in another (got %v)", unitTests, a, fires[a],
				quiet[a])
		}
		delete(fires, a)
		delete(quiet, a)
	}
	for a := range fires {
		t.Errorf("%s tests %s, which does not exist", unitTests, a)
	}
}
