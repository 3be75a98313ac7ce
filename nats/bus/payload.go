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
	"sync/atomic"
	"time"

	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"

	"github.com/nats-io/nats.go/jetstream"
)

// Store keeps what is not a record: key-value buckets, and payloads in parts.
type Store struct {
	*Conn
	// what was looked up
	buckets  sync.Map // of jetstream.KeyValue, by name
	payloads atomic.Pointer[jetstream.ObjectStore]
}

func (b *Store) objects(ctx context.Context) (jetstream.ObjectStore, error) {
	if have := b.payloads.Load(); have != nil {
		return *have, nil
	}
	os, err := b.js.ObjectStore(ctx, subject.Payloads)
	if err != nil {
		return nil, asFault(ctx, wrap("payloads", err))
	}
	b.payloads.Store(&os)
	return os, nil
}

func partName(name string, n int) string { return name + "/" + strconv.Itoa(n) }

// PutPart stores a part of a payload. Each part is an object of its own with a derived name: storing it twice
// does no harm.
func (b *Store) PutPart(ctx context.Context, name string, n int, body []byte) error {
	ctx, done := b.withStorage(ctx, "OBJ_"+subject.Payloads, remaining(ctx))
	defer done()
	if len(body) > run.PartSize {
		return fault.Newf(fault.TooLarge, "A part of a payload has at most %d bytes, not %d", run.PartSize, len(body))
	}
	os, err := b.objects(ctx)
	if err != nil {
		return err
	}
	if i, err := os.GetInfo(ctx, partName(name, n)); err == nil && i.Size == uint64(len(body)) &&
		i.Digest == digest(body) {
		return nil // it is there; do not disturb its readers
	}
	// One message: if a cluster has no leader for a moment, nats.go resends several messages out of order,
	// which damages the object.
	whole := &jetstream.ObjectMetaOptions{ChunkSize: run.PartSize}
	_, err = os.Put(ctx, jetstream.ObjectMeta{Name: partName(name, n), Opts: whole}, bytes.NewReader(body))
	return objectFault(ctx, err)
}

// objectFault is the fault for an error of the object store: every error except "not found" means that NATS failed.
func objectFault(ctx context.Context, err error) error {
	err = asFault(ctx, wrap("payload", err))
	if _, isFault := errors.AsType[*fault.Fault](err); err == nil || isFault || errors.Is(err, ErrNotFound) ||
		ctx.Err() != nil {
		return err
	}
	return unavailable(err)
}

// GetPart returns a part of a payload, or ErrNotFound.
func (b *Store) GetPart(ctx context.Context, name string, n int) ([]byte, error) {
	if b.clustered() {
		if body, err := b.leaderPart(ctx, partName(name, n)); err != errManyMessages {
			return body, err
		}
	}
	ctx, done := b.withConnection(ctx)
	defer done()
	os, err := b.objects(ctx)
	if err != nil {
		return nil, err
	}
	body, err := os.GetBytes(ctx, partName(name, n))
	switch {
	case errors.Is(err, jetstream.ErrObjectNotFound) && b.clustered(): // the leader has it
		return nil, unavailable(err)
	case errors.Is(err, jetstream.ErrObjectNotFound):
		return nil, ErrNotFound
	case errors.Is(err, jetstream.ErrDigestMismatch):
		return nil, fmt.Errorf("%w: it is damaged (%w)", ErrNotFound, err)
	}
	return body, objectFault(ctx, err)
}

var errManyMessages = errors.New("the object is not one message")

// leaderPart reads an object from the leader. A replica that lags may not have it.
func (b *Store) leaderPart(ctx context.Context, object string) ([]byte, error) {
	const stream, prefix = "OBJ_" + subject.Payloads, "$O." + subject.Payloads
	for read := ""; ; {
		meta := prefix + ".M." + base64.URLEncoding.EncodeToString([]byte(object))
		m, _, err := b.leaderGet(ctx, stream, lookup{Subject: meta})
		if err != nil {
			return nil, objectFault(ctx, err)
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
		m, _, err = b.leaderGet(ctx, stream, lookup{Subject: prefix + ".C." + info.NUID})
		if errors.Is(err, ErrNotFound) { // replaced in between?
			read = info.NUID
			continue
		}
		if err != nil {
			return nil, objectFault(ctx, err)
		}
		if sum := digest(m.Body); sum != info.Digest {
			return nil, fmt.Errorf("%w: it is damaged (%s, not %s)", ErrNotFound, sum, info.Digest)
		}
		return m.Body, nil
	}
}

// digest returns a body's checksum in the object store's format.
func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return "SHA-256=" + base64.URLEncoding.EncodeToString(sum[:])
}

// DropPayloads removes the parts for which expired returns true, given the payload's name and the part's time.
func (b *Store) DropPayloads(ctx context.Context, expired func(name string, at time.Time) bool) error {
	os, err := b.objects(ctx)
	if err != nil {
		return err
	}
	list, done := b.withConnection(ctx)
	defer done()
	infos, err := os.List(list)
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		return objectFault(list, err)
	}
	for _, i := range infos {
		cut := strings.LastIndexByte(i.Name, '/')
		if cut <= 0 || !expired(i.Name[:cut], i.ModTime) {
			continue
		}
		if err := os.Delete(ctx, i.Name); err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
			return objectFault(ctx, err)
		}
	}
	return nil
}

// DropPayload removes all parts of one payload, and their tombstones.
func (b *Store) DropPayload(ctx context.Context, name string) error {
	os, err := b.objects(ctx)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		switch err := os.Delete(ctx, partName(name, n)); {
		case errors.Is(err, jetstream.ErrObjectNotFound):
			return nil
		case err != nil:
			return objectFault(ctx, err)
		}
		tombstone := "$O." + subject.Payloads + ".M." + base64.URLEncoding.EncodeToString([]byte(partName(name, n)))
		if err := purge(ctx, b.Conn, "OBJ_"+subject.Payloads, jetstream.WithPurgeSubject(tombstone)); err != nil {
			return err
		}
	}
}
