package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"ao/nats/subject"
	"ao/shared/fault"

	"github.com/nats-io/nats.go/jetstream"
)

// The layout of the streams that this program writes. A newer minor adds, and older programs may go on; a newer
// major means other things by the same names, and is refused.
const (
	layoutMajor = 1
	layoutMinor = 0
	layoutKey   = "ao.layout"
)

var layout = strconv.Itoa(layoutMajor) + "." + strconv.Itoa(layoutMinor)

// loginMaxAge is how long it is kept that a login is over: longer than any login lasts that is not used.
const loginMaxAge = 13 * time.Hour

// least is the least room a stream is made with when the server has none for what was asked.
const least = 16 << 20

// Setup makes streams, buckets and the object store, and brings older ones up to date. Any number of
// coordinators may do it at the same time and as often as they like. While JetStream does not answer, has no leader, or has no room
// for what is missing, it waits and says so in the log, until ctx ends.
func (b *Bus) Setup(ctx context.Context) error {
	var said time.Time
	for {
		err := (&setup{Conn: b.Conn, kept: b.Store}).all(ctx)
		b.cramped.Store(nil)
		if err == nil && b.cfg.OnSetup != nil {
			b.cfg.OnSetup()
		}
		if fault.KindOf(err) != fault.Unavailable || ctx.Err() != nil {
			return err
		}
		if noRoom(err) {
			b.cramped.Store(&err)
		}
		if time.Since(said) > 5*time.Second && noRoom(err) {
			b.log.ErrorContext(ctx, "waiting for room in NATS", "err", err)
			said = time.Now()
		} else if time.Since(said) > 5*time.Second {
			b.log.WarnContext(ctx, "waiting for JetStream: is it switched on (`nats-server -js`), and are more than half of a cluster's servers up?", "replicas", b.cfg.Replicas, "err", err, "cause", errors.Unwrap(err))
			said = time.Now()
		}
		rest(ctx, 250*time.Millisecond)
	}
}

// setup is one pass over all that is to be there.
type setup struct {
	*Conn
	kept  *Store
	share float64 // of its size that a cluster's stream is made with; that of RUNS says it
}

func (b *setup) all(ctx context.Context) error {
	for _, cfg := range b.streams() {
		err := b.try(ctx, "stream "+cfg.Name, func(ctx context.Context) error { return b.stream(ctx, cfg) })
		if cfg.Name == subject.Audit && noRoom(err) { // older deployments have given all room away, and runs do not need it
			b.log.WarnContext(ctx, "NATS has no room for the stream AUDIT; GET /audit has nothing to tell", "err", err)
			continue
		}
		if err != nil {
			return err
		}
	}
	for _, name := range []string{subject.Agents, subject.Schemas, subject.Runners, subject.TaskQueues, subject.Idempotency, subject.Secrets, subject.Logins, subject.Drafts} {
		if err := b.try(ctx, "bucket "+name, func(ctx context.Context) error { return b.bucket(ctx, name) }); err != nil {
			return err
		}
	}
	if err := b.try(ctx, "object store "+subject.Payloads, b.store); err != nil {
		return err
	}
	return b.try(ctx, "inbox", func(ctx context.Context) error {
		_, err := b.js.CreateConsumer(ctx, subject.Inbox, jetstream.ConsumerConfig{
			Durable: subject.InboxDurable, AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second,
			MaxDeliver: -1, MaxAckPending: 16384, MaxWaiting: 1024,
		})
		if exists(err) {
			return nil
		}
		return err
	})
}

// try does one step of the set-up; an Unavailable fault is worth another try.
func (b *setup) try(ctx context.Context, what string, step func(context.Context) error) error {
	within, done := b.linked(ctx)
	defer done()
	err := askAgain(within, step)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if code(err) == codeOneServer {
		return fmt.Errorf("AO_NATS_REPLICAS %d: NATS is a single server, not a cluster; use 1: %w", b.cfg.Replicas, err)
	}
	if noRoom(err) {
		return fault.Wrap(fault.Unavailable, "", "NATS has no room for "+what+": what it may store (max_file_store, or what was free when it started) is promised to other streams; make room or raise max_file_store, and restart NATS", err).After(5 * time.Second)
	}
	if code(err) == codeNoPeers && strings.Contains(err.Error(), "offline") {
		return unreachable(wrap(what, err))
	}
	return away(within, wrap(what, err))
}

// streams are the five streams, RUNS first: its layout decides.
func (b *setup) streams() []jetstream.StreamConfig {
	meta := map[string]string{layoutKey: layout}
	all := []jetstream.StreamConfig{{
		// One message per subject, ever: the compare-and-set that everything rests on.
		Name: subject.Runs, Subjects: []string{subject.AllRuns}, Description: "runs: queue and history at once",
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true,
		AllowAtomicPublish: true, MaxBytes: b.cfg.MaxBytes,
	}, {
		Name: subject.Events, Subjects: []string{subject.AllEvents}, Description: "messages and tool calls of sessions",
		Discard: jetstream.DiscardOld, MaxAge: b.cfg.EventMaxAge, MaxBytes: b.cfg.EventMaxBytes,
	}, {
		Name: subject.Inbox, Subjects: []string{subject.AllInbox}, Description: "runs left by publishers",
		Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew, MaxBytes: min(b.cfg.MaxBytes, 512<<20),
	}, {
		Name: subject.Rejected, Subjects: []string{subject.AllRejected}, Description: "what could not be taken, and why",
		Discard: jetstream.DiscardOld, MaxAge: b.cfg.RejectedMaxAge, MaxBytes: min(b.cfg.MaxBytes, 256<<20),
	}, {
		Name: subject.Audit, Subjects: []string{subject.AllAudit}, Description: "who changed what, and who was refused",
		Discard: jetstream.DiscardOld, MaxAge: auditMaxAge, MaxBytes: min(b.cfg.MaxBytes, auditMaxBytes),
	}}
	for i := range all {
		all[i].Storage = jetstream.FileStorage
		all[i].AllowDirect = true
		all[i].Replicas = b.cfg.Replicas
		all[i].Metadata = meta
	}
	return all
}

// stream looks at the stream that is there, or makes it. Where it is there nothing is asked of the server's room.
func (b *setup) stream(ctx context.Context, want jetstream.StreamConfig) error {
	one, err := b.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		one, err = b.create(ctx, want)
	}
	if err == nil && one.CachedInfo().Config.Metadata[wholeKey] != "" {
		one, err = b.part(ctx, one.CachedInfo().Config, want)
	}
	if err != nil {
		return err
	}
	have := one.CachedInfo().Config
	if want.Name == subject.Runs {
		b.share = portion(have.MaxBytes, want.MaxBytes)
	}
	if want.AllowAtomicPublish && have.Metadata[layoutKey] == layout && !have.AllowAtomicPublish {
		return errors.New("the server does not know atomic batches: nats-server 2.12 or newer is needed")
	}
	return b.migrate(ctx, have, want)
}

// create makes a stream, or takes the one that somebody else just made.
func (b *setup) create(ctx context.Context, want jetstream.StreamConfig) (jetstream.Stream, error) {
	want = b.portioned(want)
	made, err := b.js.CreateStream(ctx, want)
	if noRoom(err) && (want.Name == subject.Runs || !b.clustered()) {
		made, err = b.halved(ctx, want)
	}
	if code(err) == codeStreamExists || errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return b.js.Stream(ctx, want.Name)
	}
	return made, err
}

// noRoom says that the server, or too many servers of a cluster, have no room for so large a stream.
func noRoom(err error) bool {
	return code(err) == codeNoRoom || code(err) == codeNoPeers && strings.Contains(err.Error(), "insufficient storage")
}

// halved makes a stream half as large, or half of that, until there is room.
func (b *setup) halved(ctx context.Context, want jetstream.StreamConfig) (jetstream.Stream, error) {
	for {
		want.MaxBytes = max(want.MaxBytes/2, least)
		made, err := b.js.CreateStream(ctx, want)
		if !noRoom(err) || want.MaxBytes == least {
			return made, err
		}
	}
}

// wholeKey marks a RUNS that is to find the room for all streams, and is as large as all of them for a moment. If each took what it
// is to have, the first could leave nothing to the last; and the servers of a cluster hear late, by several seconds, what the others
// have promised, so that room would be promised twice.
const wholeKey = "ao.whole"

// portioned is a stream as the server is asked for it: RUNS for all streams together, the others by what came of RUNS.
func (b *setup) portioned(want jetstream.StreamConfig) jetstream.StreamConfig {
	if want.Name != subject.Runs {
		want.MaxBytes = max(int64(float64(want.MaxBytes)*b.share), least)
		return want
	}
	want.MaxBytes, want.Metadata = b.sum(), maps.Clone(want.Metadata)
	want.Metadata[wholeKey] = strconv.FormatInt(want.MaxBytes, 10)
	return want
}

// part gives RUNS its part of the room that was found with it: as much as is asked for where there is room for all streams, else of
// half of it, since buckets and payloads come on top. Any coordinator may do it, as often as it likes.
func (b *setup) part(ctx context.Context, have, want jetstream.StreamConfig) (jetstream.Stream, error) {
	if share := portion(have.MaxBytes, b.sum()) / 2; share < 0.5 {
		want.MaxBytes = max(int64(float64(want.MaxBytes)*share), least)
		b.log.WarnContext(ctx, "NATS has little room, the streams are smaller than asked for", "stream", want.Name, "max_bytes", want.MaxBytes)
	}
	have.MaxBytes, have.Metadata = want.MaxBytes, maps.Clone(have.Metadata)
	delete(have.Metadata, wholeKey)
	return b.js.UpdateStream(ctx, have)
}

// sum is what all streams are to hold together.
func (b *setup) sum() (bytes int64) {
	for _, cfg := range b.streams() {
		bytes += cfg.MaxBytes
	}
	return bytes
}

// portion is how much of what was asked for there is, 1 at most.
func portion(have, want int64) float64 {
	if have <= 0 || have >= want {
		return 1
	}
	return float64(have) / float64(want)
}

// migrate is the one way from an older layout to this one, and to another number of replicas. What an operator
// has set on the stream (its size, its age) stays.
func (b *setup) migrate(ctx context.Context, have, want jetstream.StreamConfig) error {
	major, minor, err := readLayout(have.Metadata[layoutKey])
	if err != nil {
		return err
	}
	if major > layoutMajor {
		return fmt.Errorf("its layout is %s, this program knows %s: use a newer program, or another NATS account", have.Metadata[layoutKey], layout)
	}
	older := major < layoutMajor || minor < layoutMinor
	if !older && have.Replicas == want.Replicas {
		return nil
	}
	next := have
	if next.Replicas = want.Replicas; have.Replicas != want.Replicas {
		b.log.InfoContext(ctx, "a stream gets another number of replicas (AO_NATS_REPLICAS)", "stream", have.Name, "had", have.Replicas, "gets", want.Replicas)
	}
	if older {
		next.Subjects, next.Description, next.AllowDirect, next.AllowAtomicPublish = want.Subjects, want.Description, want.AllowDirect, want.AllowAtomicPublish
		next.MaxMsgsPerSubject, next.Discard, next.DiscardNewPerSubject = want.MaxMsgsPerSubject, want.Discard, want.DiscardNewPerSubject
		next.Metadata = maps.Clone(have.Metadata)
		if next.Metadata == nil {
			next.Metadata = map[string]string{}
		}
		next.Metadata[layoutKey] = layout
	}
	_, err = b.js.UpdateStream(ctx, next)
	return err
}

// readLayout reads "major.minor"; nothing at all is older than everything.
func readLayout(text string) (major, minor int, err error) {
	if text == "" {
		return 0, 0, nil
	}
	a, z, ok := strings.Cut(text, ".")
	major, errA := strconv.Atoi(a)
	minor, errZ := strconv.Atoi(z)
	if !ok || errA != nil || errZ != nil {
		return 0, 0, fmt.Errorf("its layout %q cannot be read: is it another program's stream?", text)
	}
	return major, minor, nil
}

func (b *setup) bucket(ctx context.Context, name string) error {
	cfg := jetstream.KeyValueConfig{Bucket: name, History: 1, Replicas: b.cfg.Replicas, Storage: jetstream.FileStorage}
	switch name {
	case subject.Idempotency:
		cfg.TTL = b.cfg.KeyMaxAge
	case subject.Logins:
		cfg.TTL = loginMaxAge
	}
	fits, err := b.fits(ctx, "KV_"+name, cfg.Replicas, cfg.TTL)
	var kv jetstream.KeyValue
	switch {
	case err != nil:
	case fits:
		kv, err = b.js.KeyValue(ctx, name)
	default:
		if kv, err = b.js.CreateKeyValue(ctx, cfg); errors.Is(err, jetstream.ErrBucketExists) {
			kv, err = b.js.UpdateKeyValue(ctx, cfg)
		}
	}
	if err == nil {
		b.kept.buckets.put(name, kv) // not to be looked for again
	}
	return err
}

// fits says whether the stream of a bucket is there as it is to be: then nothing is asked of the server's room.
func (b *setup) fits(ctx context.Context, stream string, replicas int, age time.Duration) (bool, error) {
	s, err := b.js.Stream(ctx, stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	have := s.CachedInfo().Config
	return have.Replicas == replicas && have.MaxAge == age, nil
}

func (b *setup) store(ctx context.Context) error {
	cfg := jetstream.ObjectStoreConfig{Bucket: subject.Payloads, Replicas: b.cfg.Replicas, Storage: jetstream.FileStorage}
	fits, err := b.fits(ctx, "OBJ_"+subject.Payloads, cfg.Replicas, 0)
	var store jetstream.ObjectStore
	switch {
	case err != nil:
	case fits:
		store, err = b.js.ObjectStore(ctx, subject.Payloads)
	default:
		if store, err = b.js.CreateObjectStore(ctx, cfg); errors.Is(err, jetstream.ErrBucketExists) {
			store, err = b.js.UpdateObjectStore(ctx, cfg)
		}
	}
	if err == nil {
		b.kept.keep(store)
	}
	return err
}
