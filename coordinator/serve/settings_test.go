package serve_test

import (
	"testing"

	"ao/coordinator/serve"
	"ao/shared/config"
)

// TestSettings: an administrator sees what the coordinator goes by, and nobody else does.
func TestSettings(t *testing.T) {
	t.Parallel()
	lease := config.EffectiveSetting{Name: "RUN_LEASE", Value: "3", Default: "15", Source: config.FromEnvironment,
		Help: "how long"}
	s := secure(t, func(c *serve.Config) { c.HTTP.Settings = []config.EffectiveSetting{lease} })
	got := into[struct{ Settings []config.EffectiveSetting }](s.get("/settings", s.admin), 200).Settings
	if len(got) != 1 || got[0] != lease {
		t.Errorf("got %+v", got)
	}
	s.get("/settings", s.run).want(403)
	s.get("/settings", s.read).want(403)
	s.get("/settings").want(401)
	if g := start(t).get("/settings"); g.status != 200 || g.body != `{"settings":[]}` {
		t.Errorf("of a coordinator without any: %d %s", g.status, g.body)
	}
}
