package version

import (
	"runtime/debug"
	"testing"
)

func TestOf(t *testing.T) {
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	for _, tt := range []struct {
		module   string
		stamp    string
		commit   string
		settings []debug.BuildSetting
		want     string
	}{
		{"v1.2.3", "", "", nil, "v1.2.3"},
		{"(devel)", "", "", nil, Unknown},
		{"", "", "", nil, Unknown},
		{"v0.0.0-20260101000000-0123456789ab+dirty", "", "",
			[]debug.BuildSetting{setting("vcs.revision", "0123456789abcdef"), setting("vcs.modified", "true")},
			"0123456789ab+"},
		{"(devel)", "", "", []debug.BuildSetting{setting("vcs.revision", "0123456789abcdef"),
			setting("vcs.modified", "false")}, "0123456789ab"},
		{"(devel)", "v2", "fedcba9876543210", []debug.BuildSetting{setting("vcs.revision", "0123456789abcdef")}, "v2"},
		{"(devel)", "", "fedcba9876543210", nil, "fedcba987654"},
		{"(devel)", "", "fedc", nil, "fedc"},
	} {
		if got := of(&debug.BuildInfo{Main: debug.Module{Version: tt.module}, Settings: tt.settings}, tt.stamp,
			tt.commit); got != tt.want {
			t.Errorf("%s %v: %s, want %s", tt.module, tt.settings, got, tt.want)
		}
	}
}
