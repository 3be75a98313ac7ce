// Package backup writes everything an orchestrator keeps in NATS into one file, and restores that file into an
// empty NATS. It uses the JetStream API of running servers, single or in a cluster.
//
// The file is a tar. For each stream it has stream.json (the stream's configuration), 000001, 000002, … (the
// server's snapshot in chunks) and end.json (their number and SHA-256). The last entry is complete.json. So a
// truncated or damaged file is detected before anything is restored.
package backup

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"ao/nats/subject"
	"ao/shared/strictjson"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// version is the layout of the file. A file of version 1 does not list its streams: it has the required ones.
const version = 2

// The names inside the file.
const (
	aboutFile    = "backup.json"
	streamFile   = "stream.json"
	endFile      = "end.json"
	completeFile = "complete.json"
)

// order is the order of the streams in a backup. The servers keep working while it is made, so a later stream
// is a little newer than an earlier one. The inbox comes first: a message whose run is accepted meanwhile is in
// the file too, and the run's id follows from the message's place. A restored inbox gives new messages other keys
// (bus.InboxPastKey). Runs name payloads, events and task queues, so those follow the runs.
var order = []string{
	subject.Inbox, subject.Runs, kv(subject.Reservations), subject.Rejected, subject.Events, "OBJ_" + subject.Payloads,
	kv(subject.Agents), kv(subject.Schemas), kv(subject.Runners), kv(subject.TaskQueues), kv(subject.Secrets),
	kv(subject.Logins), subject.Audit, kv(subject.Drafts),
}

// required are the streams that every orchestrator has. The others were added later.
var required = order[:11]

func kv(bucket string) string { return "KV_" + bucket }

// RecordTime stores in NATS when the last complete backup was started, for monitoring. A backup contains the
// time of the one before.
func RecordTime(ctx context.Context, nc *nats.Conn, began time.Time) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	text, err := began.UTC().MarshalText()
	if err != nil {
		return err
	}
	bucket, err := js.KeyValue(ctx, subject.Secrets)
	if err == nil {
		_, err = bucket.Put(ctx, subject.LastBackup, text)
	}
	return err
}

// Stream is what a backup has of one stream.
type Stream struct {
	Name     string
	Messages uint64
	Bytes    int64 // in the file, compressed
}

// header is the first entry of the file.
type header struct {
	Version int       `json:"version"`
	Made    time.Time `json:"made_at"`
	Server  string    `json:"nats_version,omitempty"` // that made the snapshots
	Streams []string  `json:"streams,omitempty"`
	// the high-water mark of RUNS, read before RUNS: its damages count after a restore, too (decision 0045)
	Mark json.RawMessage `json:"highwater,omitempty"`
}

// meta is a stream's first entry.
type meta struct {
	Name    string          `json:"name"`
	Created time.Time       `json:"created"`
	Config  json.RawMessage `json:"config"` // as the server reports and accepts it: unknown members stay
	State   json.RawMessage `json:"state"`
}

// sum is a stream's last entry.
type sum struct {
	Pieces int    `json:"pieces"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// complete is the last entry of the file.
type complete struct {
	Streams []string `json:"streams"`
}

// Write makes a backup over a connection that may use the whole JetStream API, as a coordinator may. written is
// called for each stream. The file contains everything, the deployment's secret included: protect it like a
// coordinator's credential.
func Write(ctx context.Context, nc *nats.Conn, w io.Writer, written func(Stream)) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	f := &file{tar: tar.NewWriter(w), now: time.Now()}
	if unfinished, err := exists(ctx, js, subject.Restoring); err != nil || unfinished {
		return cmp.Or(err, errors.New("a restore into this NATS has not finished, so nothing is complete that could "+
			"be backed up"))
	}
	names, err := existingStreams(ctx, js)
	if err != nil {
		return err
	}
	mark, err := readMark(ctx, js)
	if err != nil {
		return err
	}
	if err := f.document(aboutFile, header{version, f.now.UTC(), nc.ConnectedServerVersion(), names,
		mark}); err != nil {
		return err
	}
	for _, name := range names {
		info, err := js.Stream(ctx, name)
		if err != nil {
			return fmt.Errorf("stream %s: %w", name, err)
		}
		s, err := f.stream(ctx, nc, name, info.CachedInfo().Created)
		if err != nil {
			return fmt.Errorf("stream %s: %w", name, err)
		}
		written(s)
	}
	if err := f.document(completeFile, complete{names}); err != nil {
		return err
	}
	return f.tar.Close()
}

// readMark returns the high-water mark; nil: there is none that can be read.
func readMark(ctx context.Context, js jetstream.JetStream) (json.RawMessage, error) {
	var mark jetstream.KeyValueEntry
	bucket, err := js.KeyValue(ctx, subject.HighWater)
	if err == nil {
		mark, err = bucket.Get(ctx, subject.MarkKey)
	}
	switch {
	case errors.Is(err, jetstream.ErrBucketNotFound), errors.Is(err, jetstream.ErrKeyNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("the high-water mark: %w", err)
	case !json.Valid(mark.Value()):
		return nil, nil
	}
	return mark.Value(), nil
}

// existingStreams returns the names of the existing streams, in the order of a backup.
func existingStreams(ctx context.Context, js jetstream.JetStream) (names []string, err error) {
	for _, name := range order {
		switch there, err := exists(ctx, js, name); {
		case err != nil:
			return nil, err
		case there:
			names = append(names, name)
		case slices.Contains(required, name):
			return nil, fmt.Errorf("NATS has no stream %s: is it the NATS of a deployment, and the right account? "+
				"check AO_NATS_URL and AO_NATS_CREDS", name)
		}
	}
	return names, nil
}

// exists reports whether NATS has a stream.
func exists(ctx context.Context, js jetstream.JetStream, name string) (bool, error) {
	_, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, nil
	}
	return err == nil, wrap("stream "+name, err)
}

// wrap adds what an error is about; nil stays nil.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// file is a backup that is being written.
type file struct {
	tar *tar.Writer
	now time.Time
}

func (f *file) member(name string, body []byte) error {
	if err := f.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(body)),
		ModTime: f.now}); err != nil {
		return err
	}
	_, err := f.tar.Write(body)
	return err
}

func (f *file) document(name string, v any) error {
	body, err := strictjson.Encode(v)
	if err != nil {
		return err
	}
	return f.member(name, body)
}

// idleTimeout is how long the server may send nothing.
const idleTimeout = 30 * time.Second

// stream writes one stream. The server sends the snapshot in chunks to our inbox, and we acknowledge each.
func (f *file) stream(ctx context.Context, nc *nats.Conn, name string, created time.Time) (s Stream, err error) {
	at := nc.NewInbox()
	sub, err := nc.SubscribeSync(at)
	if err != nil {
		return s, err
	}
	defer sub.Unsubscribe()
	// No consumers: coordinators create theirs and those of task queues, at the oldest waiting run.
	ask, err := strictjson.Encode(map[string]any{"deliver_subject": at, "no_consumers": true, "chunk_size": chunkSize})
	if err != nil {
		return s, err
	}
	var r struct {
		Config, State json.RawMessage
		Error         *jetstream.APIError
	}
	if err := request(ctx, nc, "$JS.API.STREAM.SNAPSHOT."+name, ask, &r); err != nil {
		return s, err
	}
	if r.Error != nil {
		return s, r.Error
	}
	if err := f.document(name+"/"+streamFile, meta{name, created, r.Config, r.State}); err != nil {
		return s, err
	}
	var state jetstream.StreamState
	if err := json.Unmarshal(r.State, &state); err != nil {
		return s, err
	}
	s = Stream{Name: name, Messages: state.Msgs}
	hash := sha256.New()
	n := 0
	for {
		wait, cancel := context.WithTimeout(ctx, idleTimeout)
		m, err := sub.NextMsgWithContext(wait)
		cancel()
		switch {
		case ctx.Err() != nil:
			return s, ctx.Err()
		case errors.Is(err, context.DeadlineExceeded):
			return s, fmt.Errorf("the server has sent nothing for %s", idleTimeout)
		case err != nil:
			return s, err
		}
		if len(m.Data) == 0 {
			if err := checkEnd(m); err != nil {
				return s, err
			}
			break
		}
		n++
		if err := f.member(fmt.Sprintf("%s/%06d", name, n), m.Data); err != nil {
			return s, err
		}
		hash.Write(m.Data)
		s.Bytes += int64(len(m.Data))
		if m.Reply == "" { // the last one
			continue
		}
		if err := nc.Publish(m.Reply, nil); err != nil {
			return s, err
		}
	}
	return s, f.document(name+"/"+endFile, sum{n, s.Bytes, hex.EncodeToString(hash.Sum(nil))})
}

// chunkSize is the size of a snapshot's chunks: below any server's max_payload.
const chunkSize = 128 << 10

// checkEnd reads the empty message that ends a snapshot, and returns its error.
func checkEnd(m *nats.Msg) error {
	switch m.Header.Get("Status") {
	case "", "204":
		return nil
	}
	return fmt.Errorf("the server aborted the snapshot: %s %s", m.Header.Get("Status"), m.Header.Get("Description"))
}

// request sends a request to the JetStream API.
func request(ctx context.Context, nc *nats.Conn, subj string, ask []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, idleTimeout)
	defer cancel()
	m, err := nc.RequestWithContext(ctx, subj, ask)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return errors.New("JetStream does not answer: is it enabled, and does the cluster have a majority?")
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no reply to %s within %s: does this credential have the permission? A coordinator's does",
			subj, idleTimeout)
	case err != nil:
		return err
	}
	return json.Unmarshal(m.Data, into)
}
