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
	"ao/shared/run"
)

// Keys computes attempt keys (fencing tokens): HMAC-SHA256(deployment secret, run | attempt), 128 bits, hex. Two
// dispatches of an attempt share a key, and therefore a claim. Without the key nobody can claim or end a run.
type Keys struct {
	hashes atomic.Pointer[sync.Pool] // of hash.Hash, each with the secret already worked in
}

// NewKeys returns random keys, for use until the deployment's secret is read.
func NewKeys() *Keys {
	k := &Keys{}
	k.set([]byte(Nonce()))
	return k
}

func (k *Keys) set(secret []byte) {
	k.hashes.Store(&sync.Pool{New: func() any { return hmac.New(sha256.New, secret) }})
}

// Of returns the key of an attempt.
func (k *Keys) Of(run string, attempt int) string { return k.sum("", run, attempt) }

// Valid reports whether a key is one that an attempt of the run may have, or its end record.
func (k *Keys) Valid(id, key string) bool {
	for n := run.NoAttempt; n <= run.MaxAttempts+run.MaxReturns; n++ {
		if k.Of(id, n) == key {
			return true
		}
	}
	return false
}

// SignChecked returns the signature by which a coordinator confirms that it checked an attempt's result against the
// output schema (decision 0015). The label keeps it apart from the attempt's key, which the worker has.
func (k *Keys) SignChecked(run string, attempt int) string { return k.sum("checked|", run, attempt) }

// Sign returns a signature of any text by this deployment's coordinators. The label keeps it apart from keys.
func (k *Keys) Sign(text string) string { return k.sum("signed|"+text, "", 0) }

// IDs returns the ids of the run and the session that a caller's idempotency key stands for. They are the same in every
// coordinator of the deployment, and nobody else can compute them. scope is whose key it is.
func (k *Keys) IDs(scope, key string) (runID, sessionID string) {
	return run.KeyedID(k.sum("run of|"+scope+"\x00"+key, "", 0)),
		run.KeyedSessionID(k.sum("session of|"+scope+"\x00"+key, "", 0))
}

// Deployment returns a name of this deployment that reveals nothing about its secret.
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

// ValidChecked reports whether mark is the attempt's SignChecked.
func (k *Keys) ValidChecked(run string, attempt int, mark string) bool {
	return subtle.ConstantTimeCompare([]byte(k.SignChecked(run, attempt)), []byte(mark)) == 1
}

// Check returns a Forbidden fault unless key is the attempt's.
func (k *Keys) Check(run string, attempt int, key string) error {
	if subtle.ConstantTimeCompare([]byte(k.Of(run, attempt)), []byte(key)) == 1 {
		return nil
	}
	return fault.New(fault.Forbidden, "", "the attempt's key does not match")
}

// SecretKey is the key of the deployment's secret in its bucket.
const SecretKey = "attempts"

// Read takes the keys from the deployment's secret. The first coordinator of a deployment creates it.
func (k *Keys) Read(ctx context.Context, secrets interface {
	Create(ctx context.Context, key string, value []byte) (uint64, error)
	Get(ctx context.Context, key string) ([]byte, uint64, error)
}) error {
	secret := make([]byte, 32)
	rand.Read(secret)
	_, err := secrets.Create(ctx, SecretKey, secret)
	if errors.Is(err, bus.ErrTaken) {
		secret, _, err = secrets.Get(ctx, SecretKey)
	}
	if err == nil {
		k.set(secret)
	}
	return err
}

// Nonce tells one's own append from another's when it is read back.
func Nonce() string { return rand.Text() }
