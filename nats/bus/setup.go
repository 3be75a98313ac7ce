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
	"ao/shared/clock"
	"ao/shared/fault"

	"github.com/nats-io/nats.go/jetstream"
)

// The layout of the streams. A newer minor version only adds to it, and older programs keep working. A newer
// major version changes the meaning of names, and is refused.
const (
	layoutMajor = 1
	layoutMinor = 0
	layoutKey   = "ao.layout"
)

var layout = strconv.Itoa(layoutMajor) + "." + strconv.Itoa(layoutMinor)

// loginMaxAge is how long an ended login is remembered: longer than an unused login lasts.
const loginMaxAge = 13 * time.Hour

// Setup creates the streams, buckets and the object store, and upgrades older ones. Coordinators may call it
// concurrently and repeatedly. While JetStream does not answer, has no leader or no space, it waits and logs
// that, until ctx ends.
func (b *Bus) Setup(ctx context.Context) error {
	var logged time.Time
	for {
		err := (&setup{Conn: b.Conn, store: b.Store}).all(ctx)
		b.waits.Store(nil)
		if err == nil && b.cfg.OnSetup != nil {
			b.cfg.OnSetup()
		}
		if fault.KindOf(err) != fault.Unavailable || ctx.Err() != nil {
			return err
		}
		waits := noSpaceLeft(err) || errors.Is(err, errRestoring)
		if waits {
			b.waits.Store(&err)
		}
		if time.Since(logged) > 5*time.Second && waits {
			b.log.ErrorContext(ctx, "waiting until NATS can be used", "err", err)
			logged = time.Now()
		} else if time.Since(logged) > 5*time.Second {
			b.log.WarnContext(ctx, "waiting for JetStream: is it enabled (`nats-server -js`), "+
				"and are more than half of a cluster's servers up?",
				"replicas", b.cfg.Replicas, "err", err, "cause", errors.Unwrap(err))
			logged = time.Now()
		}
		clock.Sleep(ctx, 250*time.Millisecond)
	}
}

// setup is one pass over everything that must exist.
type setup struct {
	*Conn
	store *Store
	share float64 // the fraction of its size that a cluster's stream is created with, as found with RUNS
}

func (b *setup) all(ctx context.Context) error {
	if err := CheckServer(b.nc.ConnectedServerVersion()); err != nil {
		return err
	}
	if err := b.try(ctx, "restore", b.restored); err != nil {
		return err
	}
	for _, cfg := range b.streams() {
		err := b.try(ctx, "stream "+cfg.Name, func(ctx context.Context) error { return b.stream(ctx, cfg) })
		// older deployments have reserved all space, and runs do not need it
		if cfg.Name == subject.Audit && noSpaceLeft(err) {
			b.log.WarnContext(ctx, "NATS has no space for the stream AUDIT; GET /audit returns nothing", "err", err)
			continue
		}
		if err != nil {
			return err
		}
	}
	if err := b.try(ctx, "object store "+subject.Payloads, b.objectStore); err != nil {
		return err
	}
	for _, name := range bucketNames {
		if err := b.try(ctx, "bucket "+name,
			func(ctx context.Context) error { return b.bucket(ctx, name) }); err != nil {
			return err
		}
	}
	b.limitAll(ctx)
	return b.try(ctx, "inbox", func(ctx context.Context) error {
		return ensureConsumer(ctx, b.js, subject.Inbox, jetstream.ConsumerConfig{
			Durable: subject.InboxDurable, AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second,
			MaxDeliver: -1, MaxAckPending: 16384, MaxWaiting: 1024,
		})
	})
}

// ensureConsumer creates a durable consumer. One that exists stays as it is: creating it again would write its
// configuration, which a full disk refuses.
func ensureConsumer(
	ctx context.Context, js jetstream.JetStream, stream string, cfg jetstream.ConsumerConfig,
) error {
	_, err := js.Consumer(ctx, stream, cfg.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		_, err = js.CreateConsumer(ctx, stream, cfg)
	}
	if consumerExists(err) {
		return nil
	}
	return err
}

// errRestoring is why nothing is created or read yet.
var errRestoring = fault.New(fault.Unavailable, "", "a restore into this NATS has not finished, so what is there is "+
	"not complete; wait for it, or if it was ended repeat it: ao restore FILE").After(5 * time.Second)

// restored refuses a NATS whose restore has not finished.
func (b *setup) restored(ctx context.Context) error {
	_, err := b.js.Stream(ctx, subject.Restoring)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil
	case err == nil:
		return errRestoring
	}
	return err
}

// bucketNames are the key-value buckets.
var bucketNames = []string{
	subject.Agents, subject.Schemas, subject.Runners, subject.TaskQueues,
	subject.Reservations, subject.Secrets, subject.Logins, subject.Drafts, subject.HighWater,
}

// try does one step. After an Unavailable fault it can be tried again.
func (b *setup) try(ctx context.Context, what string, step func(context.Context) error) error {
	connected, done := b.withConnection(ctx)
	defer done()
	_, err := retryRequest(connected, func(ctx context.Context) (any, error) { return nil, step(ctx) })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errorCode(err) == codeOneServer {
		return fmt.Errorf("AO_NATS_REPLICAS %d: NATS is a single server, not a cluster; use 1: %w", b.cfg.Replicas, err)
	}
	if noSpaceLeft(err) {
		message := "NATS has no space for " + what + ": its limit (max_file_store, or what was free when it started) " +
			"is reserved by other streams, or its disk is full; make space or raise max_file_store, and restart NATS"
		return fault.Wrap(fault.Unavailable, "", message, err).After(5 * time.Second)
	}
	// A server of a cluster may not know yet what another coordinator has just created.
	if errorCode(err) == codeNoPeers && strings.Contains(err.Error(), "offline") ||
		errors.Is(err, jetstream.ErrStreamNotFound) {
		return unavailable(wrap(what, err))
	}
	return asFault(connected, wrap(what, err))
}

// streams returns the five streams. RUNS is the first: its layout decides.
func (b *setup) streams() []jetstream.StreamConfig {
	meta := map[string]string{layoutKey: layout}
	all := []jetstream.StreamConfig{{
		// One message per subject, ever: every compare-and-set relies on it.
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
		Name: subject.Rejected, Subjects: []string{subject.AllRejected},
		Description: "what could not be taken, and why",
		Discard:     jetstream.DiscardOld, MaxAge: b.cfg.RejectedMaxAge, MaxBytes: min(b.cfg.MaxBytes, 256<<20),
	}, {
		Name: subject.Audit, Subjects: []string{subject.AllAudit}, Description: "who changed what, and who was refused",
		Discard: jetstream.DiscardOld, MaxAge: auditMaxAge, MaxBytes: min(b.cfg.MaxBytes, auditMaxBytes),
	}}
	for i := range all {
		s := &all[i]
		s.Storage, s.AllowDirect, s.Replicas = jetstream.FileStorage, true, b.cfg.Replicas
		s.MaxMsgs = Messages(s.Name, b.cfg.Memory)
		s.Metadata = withLimit(meta, s.MaxMsgs)
	}
	return all
}

// stream checks an existing stream, or creates it. For an existing one, no space is requested from the server.
func (b *setup) stream(ctx context.Context, want jetstream.StreamConfig) error {
	one, err := b.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		one, err = b.create(ctx, want)
	}
	if err == nil && one.CachedInfo().Config.Metadata[combinedKey] != "" {
		one, err = b.shrink(ctx, one.CachedInfo().Config, want)
	}
	if err != nil {
		return err
	}
	have := one.CachedInfo().Config
	if want.Name == subject.Runs {
		b.share = fraction(have.MaxBytes, want.MaxBytes)
	}
	if want.AllowAtomicPublish && have.Metadata[layoutKey] == layout && !have.AllowAtomicPublish {
		return fmt.Errorf("a server does not know atomic batches: nats-server %s or newer is needed", MinServer)
	}
	if err := b.migrate(ctx, have, want); err != nil {
		return err
	}
	one, err = b.js.Stream(ctx, want.Name)
	if err == nil {
		err = b.limitMessages(ctx, one)
	}
	return err
}

// create creates a stream, or returns the one that another process has just created.
func (b *setup) create(ctx context.Context, want jetstream.StreamConfig) (jetstream.Stream, error) {
	want = b.sized(want)
	made, err := b.js.CreateStream(ctx, want)
	if noSpaceLeft(err) && (want.Name == subject.Runs || !b.clustered()) {
		made, err = b.createHalved(ctx, want)
	}
	if errorCode(err) == codeStreamExists || errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return b.js.Stream(ctx, want.Name)
	}
	return made, err
}

// noSpaceLeft reports whether the server, or too many servers of a cluster, have no space for a stream of that size.
func noSpaceLeft(err error) bool {
	return errorCode(err) == codeNoStreamSpace || diskFull(err) || errorCode(err) == codeNoPeers &&
		strings.Contains(err.Error(), "insufficient storage")
}

// createHalved halves the size until the server has space.
func (b *setup) createHalved(ctx context.Context, want jetstream.StreamConfig) (jetstream.Stream, error) {
	for {
		want.MaxBytes = max(want.MaxBytes/2, minStreamBytes)
		made, err := b.js.CreateStream(ctx, want)
		if !noSpaceLeft(err) || want.MaxBytes == minStreamBytes {
			return made, err
		}
	}
}

// combinedKey marks a RUNS stream that is created with the size of everything together, to find the space for
// all of it. If each stream reserved its own, the first could leave nothing for the last. And a cluster's
// servers learn late, by several seconds, what the others have reserved: space would be reserved twice.
const combinedKey = "ao.whole"

// sized returns the configuration to create a stream with: RUNS with the size of everything, the others scaled by
// what RUNS got.
func (b *setup) sized(want jetstream.StreamConfig) jetstream.StreamConfig {
	if want.Name != subject.Runs {
		want.MaxBytes = max(int64(float64(want.MaxBytes)*b.share), minStreamBytes)
		return want
	}
	want.MaxBytes, want.Metadata = b.sum(), maps.Clone(want.Metadata)
	want.Metadata[combinedKey] = strconv.FormatInt(want.MaxBytes, 10)
	return want
}

// shrink gives RUNS its own size: as configured if there was space for everything, else its share of nine tenths of
// the space. Any coordinator may do it, repeatedly.
func (b *setup) shrink(ctx context.Context, have, want jetstream.StreamConfig) (jetstream.Stream, error) {
	if share := fraction(have.MaxBytes, b.sum()); share < 1 {
		want.MaxBytes = max(int64(float64(want.MaxBytes)*share*0.9), minStreamBytes)
		b.log.WarnContext(ctx, "NATS has little space, the streams are smaller than configured", "stream", want.Name,
			"max_bytes", want.MaxBytes)
	}
	have.MaxBytes, have.Metadata = want.MaxBytes, maps.Clone(have.Metadata)
	delete(have.Metadata, combinedKey)
	return b.js.UpdateStream(ctx, have)
}

// fraction returns how much of what was wanted there is, 1 at most.
func fraction(have, want int64) float64 {
	if have <= 0 || have >= want {
		return 1
	}
	return float64(have) / float64(want)
}

// migrate upgrades a stream's layout and changes its number of replicas. An operator's own settings (size, age) stay.
func (b *setup) migrate(ctx context.Context, have, want jetstream.StreamConfig) error {
	major, minor, err := readLayout(have.Metadata[layoutKey])
	if err != nil {
		return err
	}
	if major > layoutMajor {
		return fmt.Errorf("its layout is %s, this program knows %s: use a newer program, or another NATS account",
			have.Metadata[layoutKey], layout)
	}
	older := major < layoutMajor || minor < layoutMinor
	if !older && have.Replicas == want.Replicas {
		return nil
	}
	next := have
	next.Replicas = want.Replicas
	if have.Replicas != want.Replicas {
		b.log.InfoContext(ctx, "changing a stream's number of replicas (AO_NATS_REPLICAS)",
			"stream", have.Name, "had", have.Replicas, "gets", want.Replicas)
	}
	if older {
		next.Subjects, next.Description = want.Subjects, want.Description
		next.AllowDirect, next.AllowAtomicPublish = want.AllowDirect, want.AllowAtomicPublish
		next.MaxMsgsPerSubject = want.MaxMsgsPerSubject
		next.Discard, next.DiscardNewPerSubject = want.Discard, want.DiscardNewPerSubject
		next.Metadata = map[string]string{}
		maps.Copy(next.Metadata, have.Metadata)
		next.Metadata[layoutKey] = layout
	}
	_, err = b.js.UpdateStream(ctx, next)
	return err
}

// readLayout reads "major.minor". An empty text is the oldest layout.
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
	case subject.Reservations:
		cfg.TTL = b.cfg.KeyMaxAge
	case subject.Logins:
		cfg.TTL = loginMaxAge
	}
	have, err := b.existing(ctx, "KV_"+name)
	cfg.MaxBytes = have.limitOr(b.size(limitOf(name)))
	var kv jetstream.KeyValue
	switch {
	case err != nil:
	case have.fits(cfg.Replicas, cfg.TTL):
		kv, err = b.js.KeyValue(ctx, name)
	default:
		kv, err = b.js.CreateOrUpdateKeyValue(ctx, cfg)
	}
	if err == nil {
		b.store.buckets.Store(name, kv) // no further lookup
	}
	return err
}

// existing is the configuration of a bucket's stream; Config is nil if there is none.
type existing struct{ *jetstream.StreamConfig }

func (b *setup) existing(ctx context.Context, stream string) (existing, error) {
	s, err := b.js.Stream(ctx, stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return existing{}, nil
	}
	if err != nil {
		return existing{}, err
	}
	return existing{&s.CachedInfo().Config}, nil
}

// fits reports whether the stream exists as configured. Then no space is requested from the server.
func (e existing) fits(replicas int, age time.Duration) bool {
	return e.StreamConfig != nil && e.Replicas == replicas && e.MaxAge == age
}

// limitOr returns the limit of a stream that exists, else size.
func (e existing) limitOr(size int64) int64 {
	if e.StreamConfig != nil {
		return e.MaxBytes
	}
	return size
}

func (b *setup) objectStore(ctx context.Context) error {
	have, err := b.existing(ctx, b.payloadLimit().stream)
	cfg := jetstream.ObjectStoreConfig{Bucket: subject.Payloads, Replicas: b.cfg.Replicas,
		Storage: jetstream.FileStorage, MaxBytes: have.limitOr(b.size(b.payloadLimit()))}
	var store jetstream.ObjectStore
	switch {
	case err != nil:
	case have.fits(cfg.Replicas, 0):
		store, err = b.js.ObjectStore(ctx, subject.Payloads)
	default:
		store, err = b.js.CreateOrUpdateObjectStore(ctx, cfg)
	}
	if err == nil {
		b.store.payloads.Store(&store)
	}
	return err
}
