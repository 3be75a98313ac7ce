package parts

import (
	"errors"
	"testing"
	"testing/synctest"

	"ao/nats/natstest"
	"ao/shared/fault"
)

// A coordinator that starts while a cluster has no leader waits for one.
func TestRetryUntilAvailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Coordinator{log: natstest.Log(t)}
		for _, tt := range []struct {
			answers []error
			want    error
		}{
			{[]error{nil}, nil},
			{[]error{fault.New(fault.Unavailable, "", "no leader"), fault.New(fault.Unavailable, "", "no leader"), nil},
				nil},
			{[]error{fault.New(fault.Unavailable, "", "no leader"), errors.ErrUnsupported}, errors.ErrUnsupported},
		} {
			asked := 0
			err := c.retryUntilAvailable(t.Context(), "a test", func() error {
				asked++
				return tt.answers[asked-1]
			})
			if !errors.Is(err, tt.want) || asked != len(tt.answers) {
				t.Errorf("asked %d times, got %v; want %v", asked, err, tt.want)
			}
		}
	})
}
