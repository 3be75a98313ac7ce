//go:build go1.25

package ao

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestOutageIsReported: from the beginning of an outage to the end of the retries, a caller knows for how long.
func TestOutageIsReported(t *testing.T) {
	for _, tt := range []struct {
		name       string
		retryAfter time.Duration
		want       string
	}{
		{"short pauses", 0, "0s for 1m40s|30s for 1m10s|1m0s for 40s|1m30s for 10s|1m40s given up"},
		{"long pauses", 40 * time.Second, "0s for 1m40s|40s for 1m0s|1m20s given up"},
		{"longer than the patience", time.Hour, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var reported []string
				c := New(Config{RetryFor: 100 * time.Second, Notice: func(o Outage) {
					text := time.Since(start).Round(5*time.Second).String() + " given up"
					if o.Left > 0 {
						text = fmt.Sprint(o.Age, " for ", o.Left)
					}
					reported = append(reported, text)
				}})
				away := &APIError{Status: 503, Message: "away", RetryAfter: tt.retryAfter}
				out := outage{c: c, least: 5 * time.Second}
				var err error
				for err == nil {
					err = out.wait(t.Context(), away)
				}
				if got := strings.Join(reported, "|"); !errors.Is(err, away) || got != tt.want {
					t.Errorf("got %v\n%s\nwant\n%s", err, got, tt.want)
				}
			})
		})
	}
}
