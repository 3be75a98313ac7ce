package config

import (
	"strings"
	"testing"
)

// TestSchemaEnforcement: none is a number of its own, for zero means the default; and what is switched off is stored
// so.
func TestSchemaEnforcement(t *testing.T) {
	for _, tt := range []struct {
		env     map[string]string
		retries int
		whole   bool
		wrong   string
	}{
		{nil, 2, false, ""},
		{map[string]string{"SCHEMA_ENFORCEMENT_MAX_RETRIES": "0", "SCHEMA_ENFORCEMENT_EXTRACT_JSON": "false"}, -1,
			true, ""},
		{map[string]string{"SCHEMA_ENFORCEMENT_MAX_RETRIES": "10", "SCHEMA_ENFORCEMENT_EXTRACT_JSON": "yes"}, 10,
			false, ""},
		{map[string]string{"SCHEMA_ENFORCEMENT_MAX_RETRIES": "11"}, 0, false,
			`SCHEMA_ENFORCEMENT_MAX_RETRIES: "11" must be a whole number from 0 to 10; for example ` +
				`SCHEMA_ENFORCEMENT_MAX_RETRIES=2`},
		{map[string]string{"SCHEMA_ENFORCEMENT_EXTRACT_JSON": "perhaps"}, 0, false,
			`SCHEMA_ENFORCEMENT_EXTRACT_JSON: "perhaps" must be yes or no; for example ` +
				`SCHEMA_ENFORCEMENT_EXTRACT_JSON=false`},
	} {
		var retries int
		var whole bool
		err := Parse(Program{}, nil, func(name string) (string, bool) { v, ok := tt.env[name]; return v, ok },
			SchemaRetries.To(&retries), SchemaWhole.To(&whole))
		switch {
		case tt.wrong != "":
			if err == nil || !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("%v: got %v, want %s", tt.env, err, tt.wrong)
			}
		case err != nil || retries != tt.retries || whole != tt.whole:
			t.Errorf("%v: %d %t %v", tt.env, retries, whole, err)
		}
	}
}
