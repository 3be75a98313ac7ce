package tools

import (
	"encoding/json"
	"testing"

	"ao/shared/fault"
)

// FuzzRead: an agent's servers are refused by an Invalid fault, or each is a program or an address, with a name.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`{"a":{"command":"x","args":["y"],"env":{"K":"v"}}}`,
		`{"a":{"type":"http","url":"http://127.0.0.1/","headers":{"A":"b"}}}`, `{"":{}}`, `{"a":{"url":":"}}`, `[]`,
		`null`, `{"a":{"command":1}}`, `{"a":{"command":"x","url":"http://h"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) { // a blueprint's part is JSON
			return
		}
		all, err := Read(raw)
		if err != nil {
			if fault.Of(err).Message == "" {
				t.Errorf("%s is refused by %v", raw, err)
			}
			return
		}
		for _, s := range all {
			if s.Name == "" || s.Command == "" && s.URL == "" {
				t.Errorf("%s has the server %+v", raw, s)
			}
		}
	})
}
