package record

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"hash"
	"strconv"
	"sync"
	"sync/atomic"

	"ao/nats/bus"
	"ao/shared/fault"
)

// Keys makes the keys of attempts: HMAC-SHA256(deployment secret, run | attempt), 128 bits, hex. Two
// dispatches of one attempt have the same key, and so share one claim; who never received a run cannot claim or end it.
type Keys struct {
	hashes atomic.Pointer[sync.Pool] // of hash.Hash: the secret is worked in once
}

// NewKeys makes keys that are nobody's, until the deployment's secret is read.
func NewKeys() *Keys {
	k := &Keys{}
	k.set([]byte(Nonce()))
	return k
}

func (k *Keys) set(secret []byte) {
	k.hashes.Store(&sync.Pool{New: func() any { return hmac.New(sha256.New, secret) }})
}

// Of is the key of an attempt.
func (k *Keys) Of(run string, attempt int) string { return k.sum("", run, attempt) }

// Mark proves that a coordinator has checked the result of an attempt against the run's output schema (decision 0015). Its label tells
// it apart from the attempt's key, which the worker has.
func (k *Keys) SignChecked(run string, attempt int) string {
	return k.sum("checked|", run, attempt)
}

// Sign proves that a coordinator of this deployment has written a text of any kind. Its label keeps it from being a key.
func (k *Keys) Sign(text string) string { return k.sum("signed|"+text, "", 0) }

// Deployment is a name of this deployment, which tells nothing of its secret.
func (k *Keys) Deployment() string { return k.sum("deployment|", "", 0)[:12] }

func (k *Keys) sum(label, run string, attempt int) string {
	spare := k.hashes.Load()
	m := spare.Get().(hash.Hash)
	defer spare.Put(m)
	m.Reset()
	var room [128]byte
	m.Write(strconv.AppendInt(append(append(append(room[:0], label...), run...), '|'), int64(attempt), 10))
	return hex.EncodeToString(m.Sum(room[:0])[:16])
}

// Marked tells whether a mark is that of an attempt.
func (k *Keys) ValidChecked(run string, attempt int, mark string) bool {
	return subtle.ConstantTimeCompare([]byte(k.SignChecked(run, attempt)), []byte(mark)) == 1
}

// Check refuses a key that is not the attempt's.
func (k *Keys) Check(run string, attempt int, key string) error {
	if subtle.ConstantTimeCompare([]byte(k.Of(run, attempt)), []byte(key)) == 1 {
		return nil
	}
	return fault.New(fault.Forbidden, "", "The attempt's key does not fit")
}

// Read makes the keys those of the deployment's secret; the first coordinator ever makes it.
func (k *Keys) Read(ctx context.Context, secrets interface {
	Create(ctx context.Context, key string, value []byte) (uint64, error)
	Get(ctx context.Context, key string) ([]byte, uint64, error)
}) error {
	secret := make([]byte, 32)
	rand.Read(secret)
	_, err := secrets.Create(ctx, "attempts", secret)
	if errors.Is(err, bus.ErrTaken) {
		secret, _, err = secrets.Get(ctx, "attempts")
	}
	if err == nil {
		k.set(secret)
	}
	return err
}

// Nonce tells an own append from another's when it is read back.
func Nonce() string { return rand.Text() }
