package schema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"ao/shared/schema"
)

// Each violation of a schema or a value has a line and column of its text.
func TestLocate(t *testing.T) {
	const text = "{\n  \"a\": {\"b\": [1, {\"odd key\": 2}]},\n\t\"é😀\": 3, \"c\": 4\n}"
	for _, tt := range []struct{ text, path, want string }{
		{text, "$", "1:1"},
		{text, "$.a", "2:8"},
		{text, "$.a.b", "2:14"},
		{text, "$.a.b[1]", "2:18"},
		{text, "$.a.b[1]['odd key']", "2:30"},
		{text, "$['é😀']", "3:9"},
		{text, "$.c", "3:17"},
		{text, "$.missing", "1:1"},
		{text, "$.a.missing", "2:8"},
		{text, "$.a.b[7].c", "2:14"},
		{text, "$.ab", "1:1"},
		{"", "$", "1:1"},
		{"{\n \"a\": ,", "$", "2:7"},
		{"{\n \"a\": 1", "$", "2:8"},
		{"{} x", "$", "1:4"},
		{"{\"a\": 01}", "$", "1:8"},
		{"{\"a\":1,\n\"a\": 2}", "$.a", "2:4"},
	} {
		got := schema.Locate([]byte(tt.text), []string{tt.path})
		if s := fmt.Sprintf("%d:%d", got[0].Line, got[0].Column); s != tt.want {
			t.Errorf("%q %s: got %s, want %s", tt.text, tt.path, s, tt.want)
		}
	}
}

// Places are found for many paths in one reading, whatever their order.
func TestLocateMany(t *testing.T) {
	var b strings.Builder
	var paths []string
	for i := range 1000 {
		fmt.Fprintf(&b, ",\n[%d]", i)
		paths = append([]string{fmt.Sprintf("$[%d][0]", i)}, paths...)
	}
	text := []byte("[" + b.String()[1:] + "]")
	if !json.Valid(text) {
		t.Fatal("bad text")
	}
	for i, p := range schema.Locate(text, paths) {
		if want := (schema.Place{Line: 1001 - i, Column: 2}); p != want {
			t.Fatalf("%s: got %v, want %v", paths[i], p, want)
		}
	}
}
