package run

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"ao/shared/strictjson"
)

// TestRejected: a reader of a message sees what is wrong with an answer by its field, and never by its text.
func TestRejected(t *testing.T) {
	many := make([]OutputError, 2*maxRejectionErrors)
	for i := range many {
		many[i] = OutputError{Path: fmt.Sprintf("$[%d]", i), Message: "it is no string: it is 1"}
	}
	for _, tt := range []struct {
		name  string
		wrong []OutputError
		want  []OutputError // of the field; nil: the same
	}{
		{"one error", []OutputError{{"$.n", "'n' is a required property"}}, nil},
		{"a colon, a dash, two lines", []OutputError{{"$.a", "it is: bad - or\nworse"}, {"$.b", "no"}}, nil},
		{"many", many, many[:maxRejectionErrors]},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var m Message
			if err := json.Unmarshal(RejectionMessage(2, 3, tt.wrong, "- $.x: y\n\n{}"), &m); err != nil {
				t.Fatal(err)
			}
			want := tt.want
			if want == nil {
				want = tt.wrong
			}
			got, _ := strictjson.Encode(m.Rejected())
			if wanted, _ := strictjson.Encode(Rejection{2, 3, want}); string(got) != string(wanted) {
				t.Errorf("got %s, want %s", got, wanted)
			}
			m.Rejection = nil
			if r := m.Rejected(); r != nil {
				t.Errorf("its text alone says %+v", r)
			}
		})
	}
}

// TestOtherMessages report no rejection.
func TestOtherMessages(t *testing.T) {
	for _, raw := range []string{
		`{}`, `{"role":"system","content":[]}`, string(TextMessage("system", "Output rejected")),
		string(TextMessage("system", "Output rejected, attempt two of three: it")),
		strings.Replace(string(RejectionMessage(1, 2, nil, "")), `"system"`, `"assistant"`, 1),
		string(TextMessage("assistant", "Output rejected, attempt 1 of 3: it does not match the output "+
			"schema\n- $: x\n")),
	} {
		var m Message
		if err := json.Unmarshal([]byte(raw), &m); err != nil {
			t.Fatal(err)
		}
		if r := m.Rejected(); r != nil {
			t.Errorf("%s: %+v", raw, r)
		}
	}
}
