// Package logins is what all coordinators of a deployment agree on about who is logged in: how a login is signed, and which
// logins are over.
package logins

import (
	"context"
	"errors"
	"time"

	"ao/nats/bus"
	"ao/shared/fault"
)

// signer signs with the deployment's secret.
type signer interface {
	Sign(text string) string
	Deployment() string
}

// bucket keeps the ids of logins that are over, for longer than any of them would last.
type bucket interface {
	Create(ctx context.Context, key string, body []byte) (rev uint64, err error)
	Get(ctx context.Context, key string) (body []byte, rev uint64, err error)
}

// Logins is the same on each coordinator.
type Logins struct {
	Signer signer
	Bucket bucket
	Ready  func() bool // the secret is read
}

// Deployment is a name of this deployment that no other has. The error is Unavailable.
func (l *Logins) Deployment() (string, error) {
	if !l.Ready() {
		return "", fault.New(fault.Unavailable, "", "starting: the deployment's secret is being read").After(time.Second)
	}
	return l.Signer.Deployment(), nil
}

// Sign is the signature of a text. Whoever asks has had the deployment's name.
func (l *Logins) Sign(text string) string { return l.Signer.Sign(text) }

// End ends a login, or uses up a code, for every coordinator; first: nobody did it before.
func (l *Logins) End(ctx context.Context, id string) (first bool, err error) {
	_, err = l.Bucket.Create(ctx, id, nil)
	if errors.Is(err, bus.ErrTaken) {
		return false, nil
	}
	return err == nil, err
}

// Ended says whether a login was ended, or a code used.
func (l *Logins) Ended(ctx context.Context, id string) (bool, error) {
	_, _, err := l.Bucket.Get(ctx, id)
	if errors.Is(err, bus.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
