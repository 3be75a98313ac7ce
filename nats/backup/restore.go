package backup

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/strictjson"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Check reads a backup to its end and reports whether it is complete.
func Check(r io.Reader) (made time.Time, streams []Stream, err error) {
	about, err := read(r, func(s *reader) error {
		for {
			if _, err := s.chunk(); err == io.EOF {
				break
			} else if err != nil {
				return err
			}
		}
		streams = append(streams, Stream{s.Name, s.messages(), s.bytes})
		return nil
	})
	return about.Made, streams, err
}

// Restore creates the streams of a backup. None of them may exist, unless a restore before did not finish: its streams
// are deleted first. replicas is the number of replicas in a cluster. restored is called for each stream. Until Restore
// has finished, coordinators refuse what is there (subject.Restoring). After an error the created streams are deleted.
func Restore(ctx context.Context, nc *nats.Conn, r io.Reader, replicas int, restored func(Stream)) (err error) {
	if err := bus.CheckServer(nc.ConnectedServerVersion()); err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	if err := begin(ctx, js, replicas); err != nil {
		return err
	}
	complete := false
	defer func() {
		if err == nil || complete { // coordinators may have begun already
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), idleTimeout)
		defer cancel()
		if e := cmp.Or(deleteAll(ctx, js), finish(ctx, js)); e != nil {
			err = errors.Join(err, fmt.Errorf("what is partly restored could not be deleted, and coordinators wait "+
				"until a restore has finished: %w", e))
		}
	}()
	about, err := read(r, func(s *reader) error {
		if err := s.restore(ctx, nc, replicas); err != nil {
			return refused(err, s.server, nc.ConnectedServerVersion())
		}
		restored(Stream{s.Name, s.messages(), s.bytes})
		return nil
	})
	if err != nil {
		return err
	}
	if err := noteRestored(ctx, js, replicas, about.Mark); err != nil {
		return err
	}
	complete = true
	err = finish(ctx, js)
	if err != nil { // the reply may be lost
		err = finish(ctx, js)
	}
	return wrap("everything is restored, but coordinators wait until the stream "+subject.Restoring+" is deleted", err)
}

// begin marks the restore as not finished. What an unfinished one before has left is deleted; other streams are
// refused.
func begin(ctx context.Context, js jetstream.JetStream, replicas int) error {
	unfinished, err := exists(ctx, js, subject.Restoring)
	if err != nil {
		return err
	}
	if unfinished {
		return deleteAll(ctx, js)
	}
	for _, name := range order {
		there, err := exists(ctx, js, name)
		if err != nil {
			return err
		}
		if there {
			return fmt.Errorf("NATS already has a stream %s: a backup can only be restored into an empty NATS. "+
				"Stop coordinators and workers, and give the server an empty data directory", name)
		}
	}
	return patient(ctx, func() error {
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: subject.Restoring, Replicas: replicas,
			Subjects: []string{subject.RestoringSubject}, Storage: jetstream.FileStorage, MaxBytes: 64 << 10,
			Description: "a restore has not finished"})
		return wrap("mark the restore as not finished", err)
	})
}

// finish removes the mark of a restore that is not finished.
func finish(ctx context.Context, js jetstream.JetStream) error {
	return remove(ctx, js, subject.Restoring)
}

// deleteAll deletes what a restore creates.
func deleteAll(ctx context.Context, js jetstream.JetStream) error {
	for _, name := range append(slices.Clone(order), kv(subject.HighWater)) {
		if err := remove(ctx, js, name); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes a stream, if it is there.
func remove(ctx context.Context, js jetstream.JetStream, name string) error {
	err := js.DeleteStream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	return wrap("delete stream "+name, err)
}

// refused explains why a server refuses the snapshots of a newer one: their format is the server's own.
func refused(err error, server, here string) error {
	_, refused := errors.AsType[*jetstream.APIError](err)
	of, known := bus.ParseServerVersion(server)
	if is, ok := bus.ParseServerVersion(here); !refused || !known || !ok || !is.Before(of) {
		return err
	}
	return fmt.Errorf("the backup was made with nats-server %s, and NATS is %s, which cannot read it; restore it with "+
		"%s or newer: %w", server, here, of, err)
}

// noteRestored tells coordinators that RUNS is another stream on purpose: their high-water marks are of the one before
// (decision 0045). Of the backup's mark they take the damages.
func noteRestored(ctx context.Context, js jetstream.JetStream, replicas int, mark json.RawMessage) error {
	runs, err := js.Stream(ctx, subject.Runs)
	if err != nil {
		return err
	}
	kv, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: subject.HighWater, History: 1,
		Replicas: replicas, Storage: jetstream.FileStorage})
	if err != nil {
		return err
	}
	_, err = kv.Put(ctx, subject.RestoredKey, []byte(subject.Incarnation(runs.CachedInfo().Created)))
	if err == nil && mark != nil {
		_, err = kv.Put(ctx, subject.MarkKey, mark)
	}
	return err
}

// reader reads one stream of a backup.
type reader struct {
	meta
	server string // nats-server's version, empty in older backups
	tar    *tar.Reader
	hash   hash.Hash
	chunks int
	bytes  int64
}

func (s *reader) messages() uint64 {
	var state jetstream.StreamState
	_ = json.Unmarshal(s.State, &state) // was decoded before
	return state.Msgs
}

// read reads a backup. each must read a stream's chunks to their end.
func read(from io.Reader, each func(*reader) error) (a header, err error) {
	t := tar.NewReader(from)
	if err := document(t, aboutFile, &a); err != nil {
		return a, fmt.Errorf("this is not a file written by 'ao backup': %w", err)
	}
	names, err := a.names()
	if err != nil {
		return a, err
	}
	for _, name := range names {
		s := &reader{server: a.Server, tar: t, hash: sha256.New()}
		if err := document(t, name+"/"+streamFile, &s.meta); err != nil {
			return a, incomplete(err)
		}
		if s.Name != name {
			return a, incomplete(fmt.Errorf("found %s instead of %s", s.Name, name))
		}
		if err := json.Unmarshal(s.State, &jetstream.StreamState{}); err != nil {
			return a, incomplete(fmt.Errorf("stream %s: %w", name, err))
		}
		if err := each(s); err != nil {
			return a, fmt.Errorf("stream %s: %w", name, err)
		}
	}
	var w complete
	if err := document(t, completeFile, &w); err != nil {
		return a, incomplete(err)
	}
	if !slices.Equal(w.Streams, names) {
		return a, incomplete(fmt.Errorf("it lists the streams %v", w.Streams))
	}
	return a, nil
}

// names returns the streams of a backup.
func (a header) names() ([]string, error) {
	switch a.Version {
	case 1:
		return required, nil
	case version:
	default:
		return nil, fmt.Errorf("the backup has version %d, this program knows %d; "+
			"use the program that made it, or a newer one", a.Version, version)
	}
	known := slices.DeleteFunc(slices.Clone(order), func(name string) bool { return !slices.Contains(a.Streams, name) })
	missing := slices.ContainsFunc(required, func(name string) bool { return !slices.Contains(known, name) })
	if missing || !slices.Equal(known, a.Streams) {
		return nil, fmt.Errorf("the backup has the streams %v, this program knows %v; "+
			"use the program that made it, or a newer one", a.Streams, order)
	}
	return known, nil
}

func incomplete(err error) error { return fmt.Errorf("the backup is incomplete: %w", err) }

// document reads the next entry, which must have that name.
func document(t *tar.Reader, name string, into any) error {
	h, err := t.Next()
	if err == io.EOF {
		return fmt.Errorf("it ends before %s", name)
	}
	if err != nil {
		return fmt.Errorf("before %s: %s", name, fault.Describe(err))
	}
	if h.Name != name {
		return fmt.Errorf("found %.80q instead of %s", h.Name, name)
	}
	body, err := io.ReadAll(io.LimitReader(t, 1<<20))
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %s", name, fault.Describe(err))
	}
	return nil
}

// chunk returns the next chunk, or io.EOF after the last one if the checksum is right.
func (s *reader) chunk() ([]byte, error) {
	h, err := s.tar.Next()
	switch {
	case err == io.EOF:
		return nil, incomplete(fmt.Errorf("it ends in the middle of %s", s.Name))
	case err != nil:
		return nil, incomplete(err)
	}
	body, err := io.ReadAll(io.LimitReader(s.tar, 2<<20))
	if err != nil {
		return nil, incomplete(err)
	}
	if h.Name == s.Name+"/"+endFile {
		var want sum
		if err := json.Unmarshal(body, &want); err != nil {
			return nil, incomplete(err)
		}
		if got := (sum{s.chunks, s.bytes, hex.EncodeToString(s.hash.Sum(nil))}); got != want {
			return nil, incomplete(fmt.Errorf("%s has %d chunks, %d bytes, SHA-256 %s; it should have %d, %d, %s",
				s.Name, got.Pieces, got.Bytes, got.SHA256, want.Pieces, want.Bytes, want.SHA256))
		}
		return nil, io.EOF
	}
	s.chunks++
	if want := fmt.Sprintf("%s/%06d", s.Name, s.chunks); h.Name != want {
		return nil, incomplete(fmt.Errorf("found %.80q instead of %s", h.Name, want))
	}
	s.hash.Write(body)
	s.bytes += int64(len(body))
	return body, nil
}

// restore creates the stream: it sends the configuration and then each chunk, which the server acknowledges.
func (s *reader) restore(ctx context.Context, nc *nats.Conn, replicas int) error {
	config, err := s.config(replicas)
	if err != nil {
		return err
	}
	ask, err := strictjson.Encode(map[string]json.RawMessage{"config": config, "state": s.State})
	if err != nil {
		return err
	}
	var started struct {
		Deliver string `json:"deliver_subject"`
		Error   *jetstream.APIError
	}
	err = patient(ctx, func() error {
		started.Error = nil
		if err := request(ctx, nc, "$JS.API.STREAM.RESTORE."+s.Name, ask, &started); err != nil {
			return err
		}
		if started.Error != nil {
			return started.Error
		}
		return nil
	})
	if err != nil {
		return err
	}
	for {
		body, err := s.chunk()
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return err
		}
		answer, err := send(ctx, nc, started.Deliver, body)
		if err != nil {
			return err
		}
		if !end && len(bytes.TrimSpace(answer)) == 0 {
			continue
		}
		var r struct{ Error *jetstream.APIError }
		if err := json.Unmarshal(answer, &r); err != nil {
			return fmt.Errorf("the server's reply cannot be read: %w", err)
		}
		if r.Error != nil {
			return r.Error
		}
		if end {
			return nil
		}
	}
}

// codeNoPeers is JetStream's code for a cluster without enough servers that are up and have space.
const codeNoPeers = 10005

// patient retries for a while: a cluster's servers may not know of each other yet.
func patient(ctx context.Context, ask func() error) error {
	for began := time.Now(); ; {
		err := ask()
		no, ok := errors.AsType[*jetstream.APIError](err)
		if !ok || no.ErrorCode != codeNoPeers || !strings.Contains(no.Description, "offline") ||
			time.Since(began) > idleTimeout {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// send sends a chunk. An empty one ends the stream; its reply comes when the stream is complete, which can take long.
func send(ctx context.Context, nc *nats.Conn, to string, body []byte) ([]byte, error) {
	limit := idleTimeout
	if len(body) == 0 {
		limit = 10 * time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	m, err := nc.RequestWithContext(ctx, to, body)
	for began := time.Now(); errors.Is(err, nats.ErrNoResponders) &&
		time.Since(began) < idleTimeout; m, err = nc.RequestWithContext(ctx, to, body) {
		select { // in a cluster our server may not know the receiver yet; nobody got the message
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("the server has not acknowledged for %s", limit)
	}
	if err != nil {
		return nil, err
	}
	return m.Data, nil
}

// config returns the stream's configuration with other replicas. Since a restored stream counts as a new one, the
// inbox gets metadata that keeps the keys of its messages (bus.InboxPast). So a message whose run was just
// accepted does not create a second run.
func (s *reader) config(replicas int) (json.RawMessage, error) {
	var c map[string]json.RawMessage
	if err := json.Unmarshal(s.Config, &c); err != nil {
		return nil, incomplete(err)
	}
	c["num_replicas"] = json.RawMessage(strconv.Itoa(replicas))
	if s.Name != subject.Inbox {
		return strictjson.Encode(c)
	}
	var state jetstream.StreamState
	if err := json.Unmarshal(s.State, &state); err != nil {
		return nil, incomplete(err)
	}
	meta := map[string]string{}
	if raw, ok := c["metadata"]; ok {
		if err := json.Unmarshal(raw, &meta); err != nil {
			return nil, incomplete(err)
		}
	}
	meta[bus.InboxPastKey] = bus.InboxPast(meta[bus.InboxPastKey], s.Created, state.LastSeq)
	raw, err := strictjson.Encode(meta)
	if err != nil {
		return nil, err
	}
	c["metadata"] = raw
	return strictjson.Encode(c)
}
