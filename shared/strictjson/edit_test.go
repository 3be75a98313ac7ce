package strictjson

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestEdit(t *testing.T) {
	set := func(value string, keys ...string) Change { return Change{Keys: keys, Value: json.RawMessage(value)} }
	drop := func(keys ...string) Change { return Change{Keys: keys} }
	const file = "{\n  \"name\" : \"x\",\n  \"10\":9223372036854775807,\t\"2\": 0.10,\n\n  \"a\": {\"z\":1,\n " +
		"\"y\": 1e400}\n}\n"
	for _, tt := range []struct {
		name, raw string
		changes   []Change
		want      string
	}{
		{"nothing", file, nil, file},
		{"a value", file, []Change{set(`true`, "10")},
			"{\n  \"name\" : \"x\",\n  \"10\":true,\t\"2\": 0.10,\n\n  \"a\": {\"z\":1,\n \"y\": 1e400}\n}\n"},
		{"the first one goes", file, []Change{drop("name")},
			"{\n  \"10\":9223372036854775807,\t\"2\": 0.10,\n\n  \"a\": {\"z\":1,\n \"y\": 1e400}\n}\n"},
		{"one in the middle goes", file, []Change{drop("2")},
			"{\n  \"name\" : \"x\",\n  \"10\":9223372036854775807,\n\n  \"a\": {\"z\":1,\n \"y\": 1e400}\n}\n"},
		{"the last one goes", file, []Change{drop("a")},
			"{\n  \"name\" : \"x\",\n  \"10\":9223372036854775807,\t\"2\": 0.10\n}\n"},
		{"all go", `{"a":1, "b":2}`, []Change{drop("a"), drop("b")}, `{}`},
		{"one comes", "{\n  \"a\": 1\n}\n", []Change{set(`0.10`, "b")}, "{\n  \"a\": 1,\n  \"b\": 0.10\n}\n"},
		{"one comes behind several", `{"a":1, "b":2}`, []Change{set(`3`, "c")}, `{"a":1, "b":2, "c":3}`},
		{"one comes into nothing", `{ }`, []Change{set(`1`, "a"), set(`2`, "b")}, `{"a": 1,"b": 2}`},
		{"one that is not there goes", `{"a":1}`, []Change{drop("b")}, `{"a":1}`},
		{"another name", `{"old":1,"b":2}`, []Change{set(`3`, "new", "old")}, `{"old":3,"b":2}`},
		{"both names", `{"old":1,"b":2,"new":1}`, []Change{set(`3`, "new", "old")}, `{"old":3,"b":2}`},
		{"an escaped key", `{"\u0061":1}`, []Change{set(`2`, "a")}, `{"\u0061":2}`},
		{"a text of several lines is indented", "{\r\n\t\"a\": 1\r\n}",
			[]Change{set("{\n\"10\":1.0,\"2\":[ ],\"x\":\"\\n\"}", "a")},
			"{\r\n\t\"a\": {\r\n\t\t\"10\": 1.0,\r\n\t\t\"2\": [],\r\n\t\t\"x\": \"\\n\"\r\n\t}\r\n}"},
		{"a short one stays on its line", "{\n  \"a\": 1\n}", []Change{set(`{"b":[1,2]}`, "a")},
			"{\n  \"a\": {\"b\":[1,2]}\n}"},
	} {
		got, err := Edit([]byte(tt.raw), tt.changes)
		if err != nil || string(got) != tt.want || !json.Valid(got) {
			t.Errorf("%s: got %q %v, want %q", tt.name, got, err, tt.want)
		}
	}
	if _, err := Edit([]byte(`[1]`), nil); err == nil {
		t.Error("an array is edited")
	}
}

// FuzzEdit: whatever an object looks like, a change changes its member and no other.
func FuzzEdit(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1}`, "{\n \"b\" : [1, 2],\r\n\"a\":{\"c\":\"\\\"}\"}}",
		`{"x":1,"a":2,"y":3}`} {
		f.Add(s, "a", `{"k":[0.10,1e400]}`)
	}
	f.Fuzz(func(t *testing.T, raw, key, value string) {
		if Check([]byte(raw)) != nil || Check([]byte(value)) != nil || Check([]byte(`{"`+key+`":1}`)) != nil {
			return
		}
		before, err := Members([]byte(raw))
		if err != nil {
			return
		}
		key = string(unquote([]byte(`"` + key + `"`)))
		for _, c := range []Change{{Keys: []string{key}, Value: json.RawMessage(value)}, {Keys: []string{key}}} {
			got, err := Edit([]byte(raw), []Change{c})
			if err != nil || Check(got) != nil {
				t.Fatalf("%q: %q %v", raw, got, err)
			}
			after, _ := Members(got)
			others := func(all []Member) (out []byte) {
				for _, m := range all {
					if m.Key != key {
						out = append(append(append(out, m.Key...), 0), m.Value...)
					}
				}
				return out
			}
			if !bytes.Equal(others(before), others(after)) {
				t.Errorf("%q: others changed: %q", raw, got)
			}
			for _, m := range after {
				if m.Key == key && (c.Value == nil || !same(m.Value, c.Value)) {
					t.Errorf("%q: %q", raw, got)
				}
			}
		}
	})
}

func same(a, b []byte) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}
