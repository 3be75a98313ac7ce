package bus

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"ao/nats/subject"
	"ao/shared/fault"

	"github.com/nats-io/nats.go/jetstream"
)

// PartSize is the largest part of a payload, in bytes.
const PartSize = 512 << 10

// Payload is a body in the object store, as far as its parts have come.
type Payload struct {
	Parts int
	Size  uint64
	Time  time.Time // of the newest part
}

// Store keeps what is no record: definitions in buckets, payloads in parts.
type Store struct {
	*Conn
	buckets buckets

	mu       sync.Mutex
	payloads jetstream.ObjectStore
}

func (b *Store) objects(ctx context.Context) (jetstream.ObjectStore, error) {
	b.mu.Lock()
	have := b.payloads
	b.mu.Unlock()
	if have != nil {
		return have, nil
	}
	os, err := b.js.ObjectStore(ctx, subject.Payloads)
	if err != nil {
		return nil, away(ctx, wrap("payloads", err))
	}
	b.keep(os)
	return os, nil
}

// keep notes the object store, not to be looked for again.
func (b *Store) keep(os jetstream.ObjectStore) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.payloads = os
}

func part(name string, n int) string { return name + "/" + strconv.Itoa(n) }

// PutPart keeps a part of a payload. Each part is an object of its own with a derived name, so that putting it
// twice is harmless.
func (b *Store) PutPart(ctx context.Context, name string, n int, body []byte) error {
	ctx, done := b.writing(ctx, "OBJ_"+subject.Payloads, most(ctx))
	defer done()
	if len(body) > PartSize {
		return fault.Newf(fault.TooLarge, "A part of a payload has at most %d bytes, not %d", PartSize, len(body))
	}
	os, err := b.objects(ctx)
	if err != nil {
		return err
	}
	if i, err := os.GetInfo(ctx, part(name, n)); err == nil && i.Size == uint64(len(body)) && i.Digest == digest(body) {
		return nil // it is there: whoever reads it at this moment is not disturbed
	}
	// One message: where a cluster has no leader for a moment, nats.go sends those of several again out of order, and the object
	// is damaged for ever.
	whole := &jetstream.ObjectMetaOptions{ChunkSize: PartSize}
	_, err = os.Put(ctx, jetstream.ObjectMeta{Name: part(name, n), Opts: whole}, bytes.NewReader(body))
	return kept(ctx, err)
}

// kept is what an error of the object store means: it has many, and all but "there is none" are NATS's trouble.
func kept(ctx context.Context, err error) error {
	err = away(ctx, wrap("payload", err))
	if _, said := errors.AsType[*fault.Fault](err); err == nil || said || errors.Is(err, ErrNotFound) || ctx.Err() != nil {
		return err
	}
	return unreachable(err)
}

// GetPart gives a part of a payload, or ErrNotFound.
func (b *Store) GetPart(ctx context.Context, name string, n int) ([]byte, error) {
	if b.clustered() {
		if body, err := b.leadersPart(ctx, part(name, n)); err != errManyMessages {
			return body, err
		}
	}
	ctx, done := b.linked(ctx)
	defer done()
	os, err := b.objects(ctx)
	if err != nil {
		return nil, err
	}
	body, err := os.GetBytes(ctx, part(name, n))
	switch {
	case errors.Is(err, jetstream.ErrObjectNotFound) && b.clustered(): // the leader has it
		return nil, unreachable(err)
	case errors.Is(err, jetstream.ErrObjectNotFound):
		return nil, ErrNotFound
	case errors.Is(err, jetstream.ErrDigestMismatch):
		return nil, fmt.Errorf("%w: it is damaged (%w)", ErrNotFound, err)
	}
	return body, kept(ctx, err)
}

var errManyMessages = errors.New("the object is not one message")

// leadersPart reads an object from the leader: any other replica may have yet to catch up, and not know it.
func (b *Store) leadersPart(ctx context.Context, object string) ([]byte, error) {
	const stream, prefix = "OBJ_" + subject.Payloads, "$O." + subject.Payloads
	for read := ""; ; {
		m, _, err := b.leaders(ctx, stream, lookup{Subject: prefix + ".M." + base64.URLEncoding.EncodeToString([]byte(object))})
		if err != nil {
			return nil, kept(ctx, err)
		}
		var info jetstream.ObjectInfo
		switch err := json.Unmarshal(m.Body, &info); {
		case err != nil:
			return nil, fmt.Errorf("payload %s: %w", object, err)
		case info.Deleted, info.NUID == read:
			return nil, ErrNotFound
		case info.Size == 0:
			return nil, nil
		case info.Chunks != 1:
			return nil, errManyMessages
		}
		m, _, err = b.leaders(ctx, stream, lookup{Subject: prefix + ".C." + info.NUID})
		if errors.Is(err, ErrNotFound) { // put anew in between?
			read = info.NUID
			continue
		}
		if err != nil {
			return nil, kept(ctx, err)
		}
		if sum := digest(m.Body); sum != info.Digest {
			return nil, fmt.Errorf("%w: it is damaged (%s, not %s)", ErrNotFound, sum, info.Digest)
		}
		return m.Body, nil
	}
}

// digest is a body's checksum as the object store writes it.
func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return "SHA-256=" + base64.URLEncoding.EncodeToString(sum[:])
}

// ListPayloads gives every payload by name.
func (b *Store) ListPayloads(ctx context.Context) (map[string]Payload, error) {
	ctx, done := b.linked(ctx)
	defer done()
	all := map[string]Payload{}
	err := b.parts(ctx, func(name string, i *jetstream.ObjectInfo) error {
		p := all[name]
		p.Parts++
		p.Size += i.Size
		if i.ModTime.After(p.Time) {
			p.Time = i.ModTime
		}
		all[name] = p
		return nil
	})
	return all, err
}

// DropPayloads removes the parts of payloads that gone says so of, by the payload's name and the part's time.
func (b *Store) DropPayloads(ctx context.Context, gone func(name string, at time.Time) bool) error {
	os, err := b.objects(ctx)
	if err != nil {
		return err
	}
	var doomed []string
	list, done := b.linked(ctx)
	defer done()
	err = b.parts(list, func(name string, i *jetstream.ObjectInfo) error {
		if gone(name, i.ModTime) {
			doomed = append(doomed, i.Name)
		}
		return nil
	})
	for _, name := range doomed {
		if err := os.Delete(ctx, name); err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
			return kept(ctx, err)
		}
	}
	return err
}

// DropPayload removes all parts of one payload, and what the object store notes of their removal.
func (b *Store) DropPayload(ctx context.Context, name string) error {
	os, err := b.objects(ctx)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		switch err := os.Delete(ctx, part(name, n)); {
		case errors.Is(err, jetstream.ErrObjectNotFound):
			return nil
		case err != nil:
			return kept(ctx, err)
		}
		note := "$O." + subject.Payloads + ".M." + base64.URLEncoding.EncodeToString([]byte(part(name, n)))
		if err := purge(ctx, b.Conn, "OBJ_"+subject.Payloads, jetstream.WithPurgeSubject(note)); err != nil {
			return err
		}
	}
}

func (b *Store) parts(ctx context.Context, f func(name string, i *jetstream.ObjectInfo) error) error {
	os, err := b.objects(ctx)
	if err != nil {
		return err
	}
	infos, err := os.List(ctx)
	if errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil
	}
	if err != nil {
		return kept(ctx, err)
	}
	for _, i := range infos {
		if cut := strings.LastIndexByte(i.Name, '/'); cut > 0 {
			if err := f(i.Name[:cut], i); err != nil {
				return err
			}
		}
	}
	return nil
}
