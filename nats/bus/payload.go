package bus

import (
	"context"
	"crypto/rand"
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
	"ao/shared/strictjson"

	"github.com/nats-io/nats.go"
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
	ctx, done := b.withStorage(ctx, payloadStream, remaining(ctx))
	defer done()
	if len(body) > run.PartSize {
		return fault.Newf(fault.TooLarge, "A part of a payload has at most %d bytes, not %d", run.PartSize, len(body))
	}
	os, err := b.objects(ctx)
	if err != nil {
		return err
	}
	old, err := os.GetInfo(ctx, partName(name, n))
	if err == nil && old.Size == uint64(len(body)) && old.Digest == digest(body) {
		return nil // it is there; do not disturb its readers
	}
	if err := b.publishPart(ctx, partName(name, n), body); err != nil || old == nil {
		b.sinks[payloadStream].noteRefusal(err)
		return objectFault(ctx, err)
	}
	return purge(ctx, b.Conn, payloadStream, jetstream.WithPurgeSubject(chunkPrefix+old.NUID))
}

// The subjects of the object store, as nats.go has them.
const (
	payloadStream = "OBJ_" + subject.Payloads
	chunkPrefix   = "$O." + subject.Payloads + ".C."
	metaPrefix    = "$O." + subject.Payloads + ".M."
)

func metaSubject(object string) string {
	return metaPrefix + base64.URLEncoding.EncodeToString([]byte(object))
}

// publishPart stores an object as one chunk, and its description once the chunk is stored. nats.go sends both at once:
// if only the description is stored, as in a full store, the object looks complete and has no body.
func (b *Store) publishPart(ctx context.Context, object string, body []byte) error {
	info := jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{Name: object, Opts: &jetstream.ObjectMetaOptions{ChunkSize: run.PartSize}},
		Bucket:     subject.Payloads, NUID: rand.Text(), Size: uint64(len(body)), ModTime: time.Now().UTC(),
		Digest: digest(body),
	}
	if len(body) > 0 {
		info.Chunks = 1
		if _, err := b.js.Publish(ctx, chunkPrefix+info.NUID, body); err != nil {
			return err
		}
	}
	description, err := strictjson.Encode(info)
	if err != nil {
		return err
	}
	_, err = b.js.PublishMsg(ctx, &nats.Msg{Subject: metaSubject(object), Data: description,
		Header: nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}}})
	if err != nil && errorCode(err) != 0 { // it is refused
		_ = purge(ctx, b.Conn, payloadStream, jetstream.WithPurgeSubject(chunkPrefix+info.NUID)) // else nobody finds it
	}
	return err
}

// objectFault is the fault for an error of the object store: every error except "not found" means that NATS failed.
func objectFault(ctx context.Context, err error) error {
	if errorCode(err) == codeStoreFailed && strings.Contains(err.Error(), maxBytesText) {
		return fault.Wrap(fault.Busy, run.CodePayloadsFull, "The object store of NATS is full (max_bytes of OBJ_"+
			subject.Payloads+")", err).After(30 * time.Second)
	}
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
	for read := ""; ; {
		m, _, err := b.leaderGet(ctx, payloadStream, lookup{Subject: metaSubject(object)})
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
		m, _, err = b.leaderGet(ctx, payloadStream, lookup{Subject: chunkPrefix + info.NUID})
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

// DropPayloads removes the parts for which expired returns true, given the payload's name, and the part's size in bytes
// and time.
func (b *Store) DropPayloads(ctx context.Context, expired func(name string, size uint64, at time.Time) bool) error {
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
		if cut <= 0 || !expired(i.Name[:cut], i.Size, i.ModTime) {
			continue
		}
		if err := b.dropPart(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// DropPayload removes all parts of one payload.
func (b *Store) DropPayload(ctx context.Context, name string) error {
	os, err := b.objects(ctx)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		info, err := os.GetInfo(ctx, partName(name, n))
		switch {
		case errors.Is(err, jetstream.ErrObjectNotFound):
			return nil
		case err != nil:
			return objectFault(ctx, err)
		}
		if err := b.dropPart(ctx, info); err != nil {
			return err
		}
	}
}

// dropPart removes a part. It writes nothing, not even a tombstone: a full store would refuse that.
func (b *Store) dropPart(ctx context.Context, info *jetstream.ObjectInfo) error {
	err := purge(ctx, b.Conn, payloadStream, jetstream.WithPurgeSubject(chunkPrefix+info.NUID))
	if err == nil {
		err = purge(ctx, b.Conn, payloadStream, jetstream.WithPurgeSubject(metaSubject(info.Name)))
	}
	return err
}
