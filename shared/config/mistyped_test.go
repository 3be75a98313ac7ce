package config

import (
	"slices"
	"testing"
)

func TestMistyped(t *testing.T) {
	var c config
	for _, tt := range []struct {
		set, instead string
	}{
		{"AO_HTTP_ADDR=x", ""}, {"HOME=/", ""}, {"AO_URL=x", ""}, {"AO_HTTP_PORT=1", ""}, {"AO_=1", ""}, {"=1", ""},
		{"", ""}, {"AO_HTTP_ADRD", ""}, {"AO_HTTP_ADR=", ""},
		// too few
		{"AO_HTTP_ADR=x", "AO_HTTP_ADDR"}, {"AO_HTTPADDR=x", "AO_HTTP_ADDR"}, {"O_HTTP_ADDR=x", "AO_HTTP_ADDR"},
		{"AO_HTTP_ADDRS=x", "AO_HTTP_ADDR"}, {"AO_HTTTP_ADDR=x", "AO_HTTP_ADDR"}, // too many
		// wrong
		{"AO_HTTP_ADDF=x", "AO_HTTP_ADDR"}, {"BO_HTTP_ADDR=x", "AO_HTTP_ADDR"}, {"AO_HTTP_AxDR=x", "AO_HTTP_ADDR"},
		// changed places
		{"AO_HTTP_ADRD=x", "AO_HTTP_ADDR"}, {"OA_HTTP_ADDR=x", "AO_HTTP_ADDR"}, {"RUN_LAESE=1", "RUN_LEASE"},
		{"AO_HTTP_AD=x", ""}, {"AO_HTPT_ADRD=x", ""},
	} {
		var want []string
		if tt.instead != "" {
			name := tt.set[:len(tt.set)-2]
			want = []string{name + " is set but is not a setting; do you mean " + tt.instead + "?"}
		}
		if got := mistypedWarnings([]string{tt.set}, c.table()); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", tt.set, got, want)
		}
	}
}
