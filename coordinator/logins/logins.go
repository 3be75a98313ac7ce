// Package logins shares browser logins among the coordinators of a deployment: how they are signed, and which have
// ended.
package logins

import (
	"context"
	"errors"
	"time"

	"ao/nats/bus"
	"ao/shared/fault"
)

// signer signs with the secret of the deployment.
type signer interface {
	Sign(text string) string
	Deployment() string
}

// bucket keeps the ids of ended logins, for longer than a login can last.
type bucket interface {
	Create(ctx context.Context, key string, body []byte) (rev uint64, err error)
	Get(ctx context.Context, key string) (body []byte, rev uint64, err error)
}

// Logins signs and ends logins.
type Logins struct {
	Signer signer
	Bucket bucket
	Ready  func() bool // the secret has been read
}

// Deployment returns the unique name of this deployment. Its error is Unavailable.
func (l *Logins) Deployment() (string, error) {
	if !l.Ready() {
		return "", fault.New(fault.Unavailable, "", "starting: the deployment's secret is being read").
			After(time.Second)
	}
	return l.Signer.Deployment(), nil
}

// Sign returns the signature of a text. Deployment must have succeeded before.
func (l *Logins) Sign(text string) string { return l.Signer.Sign(text) }

// End ends a login, or uses up a code, for every coordinator. first: it was not ended before.
func (l *Logins) End(ctx context.Context, id string) (first bool, err error) {
	_, err = l.Bucket.Create(ctx, id, nil)
	if errors.Is(err, bus.ErrTaken) {
		return false, nil
	}
	return err == nil, err
}

// Ended reports whether a login has ended, or a code was used.
func (l *Logins) Ended(ctx context.Context, id string) (bool, error) {
	_, _, err := l.Bucket.Get(ctx, id)
	if errors.Is(err, bus.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
