package httpapi

import (
	"encoding/csv"
	"strings"
	"testing"
)

// A cell is never a formula, and is read back as it was but for the apostrophe.
func TestCells(t *testing.T) {
	for _, tt := range []struct{ cell, want string }{
		{"", ""},
		{"run_0192", "run_0192"},
		{"2026-01-31T12:00:00Z", `"2026-01-31T12:00:00Z"`},
		{`{"a":"x,y"}`, `"{""a"":""x,y""}"`},
		{"=1+1", `"'=1+1"`},
		{"+1", `"'+1"`},
		{"-1", `"'-1"`},
		{"@SUM(A1)", `"'@SUM(A1)"`},
		{"\t=1", "\"'\t=1\""},
		{"\r=1", "\"'\r=1\""},
		{"\n=1", "\"'\n=1\""},
		{"\x00=1", "\"'\x00=1\""},
		{"\x7f=1", "\"'\x7f=1\""},
		{" =1", `"' =1"`},
		{"\u00a0@x", "\"'\u00a0@x\""},
		{"＝1+1", `"'＝1+1"`},
		{"a;=1+1", `"a;=1+1"`},
		{`"=1`, `"""=1"`},
		{"a=1", `"a=1"`},
		{"ü", `"ü"`},
	} {
		got := string(appendCell(nil, tt.cell))
		if got != tt.want {
			t.Errorf("%q: got %s, want %s", tt.cell, got, tt.want)
		}
		back, err := csv.NewReader(strings.NewReader("x," + got + "\n")).Read()
		bare := strings.TrimPrefix(back[1], "'")
		if err != nil || bare != strings.ReplaceAll(tt.cell, "\r\n", "\n") {
			t.Errorf("%q is read back as %q, %v", tt.cell, back, err)
		}
	}
}
