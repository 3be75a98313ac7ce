// Package backup writes all that an orchestrator keeps in NATS into one file, and makes it anew from that file in an empty
// NATS: over the JetStream API, from servers that go on working, one or a cluster.
//
// The file is a tar. Of each stream it has stream.json (what the stream is), 000001, 000002, … (the server's snapshot in
// pieces, as they came) and end.json (how many there were, and their SHA-256); last of all complete.json. So a file that was
// cut off, or has changed, is known before anything is made of it.
package backup

import (
	"archive/tar"
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

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// version is the layout of the file. In the first one the file did not say which streams it has: it had those of required.
const version = 2

// The names inside the file.
const (
	aboutFile    = "backup.json"
	streamFile   = "stream.json"
	endFile      = "end.json"
	completeFile = "complete.json"
)

// order is what is backed up, and in which order: the servers go on while it is read, so what follows is a little newer than what
// precedes it. The inbox comes first: a message whose run is accepted meanwhile is then in the file as a message too, and its key has
// the run made once. Runs name bodies, events and lanes, so those are read after the runs that name them. The idempotency keys come
// after RUNS too: a key whose run is missing makes it when it is asked again, a run whose key is missing would be made twice. A key of
// an inbox message that the file does not hold harms nobody: a restored inbox names what it is given anew differently (bus.InboxBefore).
var order = []string{
	subject.Inbox, subject.Runs, kv(subject.Idempotency), subject.Rejected, subject.Events, "OBJ_" + subject.Payloads,
	kv(subject.Agents), kv(subject.Schemas), kv(subject.Runners), kv(subject.TaskQueues), kv(subject.Secrets),
	kv(subject.Logins), subject.Audit, kv(subject.Drafts),
}

// required are those that every orchestrator has. The others were added since; an older coordinator has not made them.
var required = order[:11]

func kv(bucket string) string { return "KV_" + bucket }

// Note keeps in NATS when a backup was begun that is whole now, for who watches over backups. The file itself has the note of the backup
// before it.
func Note(ctx context.Context, nc *nats.Conn, began time.Time) error {
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

// Stream is what a backup holds of one stream.
type Stream struct {
	Name     string
	Messages uint64
	Bytes    int64 // as they are in the file, compressed
}

// about is the first member of the file.
type about struct {
	Version int       `json:"version"`
	Made    time.Time `json:"made_at"`
	Streams []string  `json:"streams,omitempty"`
}

// meta is a stream's first member.
type meta struct {
	Name    string          `json:"name"`
	Created time.Time       `json:"created"`
	Config  json.RawMessage `json:"config"` // as the server gives it and takes it: a member that this program does not know stays
	State   json.RawMessage `json:"state"`
}

// sum is a stream's last member.
type sum struct {
	Pieces int    `json:"pieces"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// whole is the last member of the file.
type whole struct {
	Streams []string `json:"streams"`
}

// Write backs up over a connection that may use the whole JetStream API, as a coordinator's may. told hears of each stream when it is in
// the file. The file holds everything, also the deployment's secret: it belongs to whoever may be a coordinator.
func Write(ctx context.Context, nc *nats.Conn, w io.Writer, told func(Stream)) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	f := &file{tar: tar.NewWriter(w), now: time.Now()}
	names, err := here(ctx, js)
	if err != nil {
		return err
	}
	if err := f.document(aboutFile, about{version, f.now.UTC(), names}); err != nil {
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
		told(s)
	}
	if err := f.document(completeFile, whole{names}); err != nil {
		return err
	}
	return f.tar.Close()
}

// here names the streams that there are, in the order of a backup.
func here(ctx context.Context, js jetstream.JetStream) (names []string, err error) {
	for _, name := range order {
		switch _, err := js.Stream(ctx, name); {
		case err == nil:
			names = append(names, name)
		case errors.Is(err, jetstream.ErrStreamNotFound) && slices.Contains(required, name):
			return nil, fmt.Errorf("there is no stream %s here: is this the NATS of an orchestrator, and the right account? see AO_NATS_URL and AO_NATS_CREDS", name)
		case !errors.Is(err, jetstream.ErrStreamNotFound):
			return nil, fmt.Errorf("stream %s: %w", name, err)
		}
	}
	return names, nil
}

// file is a backup that is being written.
type file struct {
	tar *tar.Writer
	now time.Time
}

func (f *file) member(name string, body []byte) error {
	if err := f.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(body)), ModTime: f.now}); err != nil {
		return err
	}
	_, err := f.tar.Write(body)
	return err
}

func (f *file) document(name string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return f.member(name, body)
}

// silence is how long the server may send nothing.
const silence = 30 * time.Second

// stream writes one stream. The server sends the snapshot in pieces to a subject of ours, and goes on sending while we confirm.
func (f *file) stream(ctx context.Context, nc *nats.Conn, name string, created time.Time) (s Stream, err error) {
	at := nc.NewInbox()
	sub, err := nc.SubscribeSync(at)
	if err != nil {
		return s, err
	}
	defer sub.Unsubscribe()
	// No consumers: coordinators make their own and the lanes' anew, at the oldest run that waits.
	ask, err := json.Marshal(map[string]any{"deliver_subject": at, "no_consumers": true, "chunk_size": piece})
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
		within, cancel := context.WithTimeout(ctx, silence)
		m, err := sub.NextMsgWithContext(within)
		cancel()
		switch {
		case ctx.Err() != nil:
			return s, ctx.Err()
		case errors.Is(err, context.DeadlineExceeded):
			return s, fmt.Errorf("the server sends nothing any more, for %s", silence)
		case err != nil:
			return s, err
		}
		if len(m.Data) == 0 {
			if err := complete(m); err != nil {
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

// piece is how large the pieces are that a snapshot comes and goes in: small enough for any server's max_payload.
const piece = 128 << 10

// complete reads the message without a body that ends a snapshot: why it ended, where that is told.
func complete(m *nats.Msg) error {
	switch m.Header.Get("Status") {
	case "", "204":
		return nil
	}
	return fmt.Errorf("the server gave up: %s %s", m.Header.Get("Status"), m.Header.Get("Description"))
}

// request asks the JetStream API.
func request(ctx context.Context, nc *nats.Conn, subj string, ask []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	m, err := nc.RequestWithContext(ctx, subj, ask)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return errors.New("JetStream does not answer here: is it switched on, and has a cluster its majority?")
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s is not answered within %s: may this credential use it? A coordinator's may", subj, silence)
	case err != nil:
		return err
	}
	return json.Unmarshal(m.Data, into)
}
