package backup

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A cluster that has just started says for a moment that its servers are offline; one that lacks them says so for ever.
func TestStartingClusterIsWaitedFor(t *testing.T) {
	t.Parallel()
	offline := &jetstream.APIError{Code: 400, ErrorCode: codeNoPeers,
		Description: "no suitable peers for placement, peer offline"}
	full := &jetstream.APIError{Code: 400, ErrorCode: codeNoPeers,
		Description: "no suitable peers for placement, insufficient storage"}
	for _, tt := range []struct {
		says []error // then the last again and again
		want error
		most time.Duration
	}{
		{[]error{offline, offline, nil}, nil, time.Second},
		{[]error{offline}, offline, idleTimeout + time.Second},
		{[]error{full}, full, 0},
		{[]error{nil}, nil, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			began, asked := time.Now(), 0
			err := patient(t.Context(), func() error {
				asked++
				return tt.says[min(asked, len(tt.says))-1]
			})
			if !errors.Is(err, tt.want) || time.Since(began) > tt.most {
				t.Errorf("got %v after %s, want %v within %s", err, time.Since(began), tt.want, tt.most)
			}
		})
	}
}
