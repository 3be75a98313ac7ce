package coordinator

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

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
)

// keys makes the keys of attempts: HMAC-SHA256(deployment secret, run | attempt), 128 bits, hex (design section 3). Two
// dispatches of one attempt have the same key, and so share one claim; who never received a run cannot claim or end it.
type keys struct{ spare *sync.Pool } // of hash.Hash: the secret is worked in once

func newKeys(secret []byte) keys {
	return keys{&sync.Pool{New: func() any { return hmac.New(sha256.New, secret) }}}
}

func (k keys) of(run string, attempt int) string { return k.sum("", run, attempt) }

// mark proves that a coordinator has checked the result of an attempt against the run's output schema (decision 0015). Its label tells
// it apart from the attempt's key, which the worker has.
func (k keys) mark(run string, attempt int) string {
	return k.sum("checked|", run, attempt)
}

func (k keys) sum(label, run string, attempt int) string {
	m := k.spare.Get().(hash.Hash)
	defer k.spare.Put(m)
	m.Reset()
	var room [128]byte
	m.Write(strconv.AppendInt(append(append(append(room[:0], label...), run...), '|'), int64(attempt), 10))
	return hex.EncodeToString(m.Sum(room[:0])[:16])
}

// marked tells whether a mark is that of an attempt.
func (k keys) marked(run string, attempt int, mark string) bool {
	return subtle.ConstantTimeCompare([]byte(k.mark(run, attempt)), []byte(mark)) == 1
}

func (k keys) check(run string, attempt int, key string) error {
	if subtle.ConstantTimeCompare([]byte(k.of(run, attempt)), []byte(key)) == 1 {
		return nil
	}
	return fault.New(fault.Forbidden, "", "The attempt's key does not fit")
}

// secret reads the deployment's secret; the first coordinator ever makes it.
func (c *Coordinator) secret(ctx context.Context) ([]byte, error) {
	b := c.bus.Bucket(subject.Secrets)
	fresh := make([]byte, 32)
	rand.Read(fresh)
	if _, err := b.Create(ctx, "attempts", fresh); err == nil {
		return fresh, nil
	} else if !errors.Is(err, bus.ErrTaken) {
		return nil, err
	}
	secret, _, err := b.Get(ctx, "attempts")
	return secret, err
}

// nonce tells an own append from another's when it is read back.
func nonce() string { return rand.Text() }
