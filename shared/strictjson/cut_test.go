package strictjson

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestCut(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, tt := range []struct{ raw, want string }{
		{`{"a":"` + long + `"}`, `{"a":"` + long[:100] + `"}`},
		{`{"a":"short","b":"` + long + `","c":"` + long + `"}`, `{"a":"short","b":"` + long[:95] + `","c":"` +
			long[:64] + `"}`},
		{`{"10":1.50,"2":9223372036854775807,"` + long + `":"x"}`, `{"10":1.50,"2":9223372036854775807,"` + long +
			`":"x"}`},
		{`["` + strings.Repeat("ä", 100) + `", null]`, `["` + strings.Repeat("ä", 50) + `", null]`},
		{`"` + long[:99] + `\u00e4` + long + `"`, `"` + long[:99] + `"`},
		{`"` + long[:90] + `\ud83d\ude00` + long + `"`, `"` + long[:90] + `"`},
		{`"` + long[:99] + `\"` + long + `"`, `"` + long[:99] + `"`},
		{`"` + long[:99] + `\\"`, `"` + long[:99] + `"`},
		{`""`, `""`},
		{`7`, `7`},
	} {
		got := string(Truncate([]byte(tt.raw), 100))
		if got != tt.want || !json.Valid([]byte(got)) {
			t.Errorf("%s\ngot  %s\nwant %s", tt.raw, got, tt.want)
		}
	}
}

func FuzzCut(f *testing.F) {
	f.Add(`{"a":"\ud83d\ude00ä\\","b":["x"]}`, 3)
	f.Fuzz(func(t *testing.T, raw string, most int) {
		if json.Valid([]byte(raw)) && !json.Valid(Truncate([]byte(raw), max(most, 0))) {
			t.Errorf("%q cut to %d is no JSON: %q", raw, most, Truncate([]byte(raw), most))
		}
	})
}
