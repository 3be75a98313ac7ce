package strictjson_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"ao/shared/strictjson"
)

// TestIndent: indented as encoding/json does it, unless that is too large, or it is no JSON.
func TestIndent(t *testing.T) {
	for _, raw := range []string{`{"a":[1,{"b":"],[\"{"}],"c":{}}`, `[]`, `"\\"`, `{"a" : 1 }`,
		strings.Repeat("[", 100) + strings.Repeat("]", 100)} {
		var want bytes.Buffer
		if err := json.Indent(&want, []byte(raw), "", "  "); err != nil {
			t.Fatal(err)
		}
		if got := strictjson.Indent([]byte(raw), 2*want.Len()+16); got != want.String() {
			t.Errorf("%s: got %s", raw, got)
		}
		if got := strictjson.Indent([]byte(raw), want.Len()-1); got != raw {
			t.Errorf("%s: got %s, longer than it may be", raw, got)
		}
	}
	for _, raw := range []string{``, `[`, `]]]]`, `nope`, `"`, `"\`} {
		if got := strictjson.Indent([]byte(raw), 1<<20); got != raw {
			t.Errorf("%q: got %q", raw, got)
		}
	}
}
