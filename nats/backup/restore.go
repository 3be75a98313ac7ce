package backup

import (
	"archive/tar"
	"bytes"
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

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Check reads a backup from its beginning to its end and tells whether it is whole. What is wrong is an error.
func Check(r io.Reader) (made time.Time, streams []Stream, err error) {
	made, err = read(r, func(s *reader) error {
		for {
			if _, err := s.piece(); err == io.EOF {
				break
			} else if err != nil {
				return err
			}
		}
		streams = append(streams, Stream{s.Name, s.messages(), s.bytes})
		return nil
	})
	return made, streams, err
}

// Restore makes the streams of a backup. None of them may be there yet; replicas is how many copies each gets, in a cluster. told hears of each
// stream when it stands. After an error those that were made are gone again.
func Restore(ctx context.Context, nc *nats.Conn, r io.Reader, replicas int, told func(Stream)) (err error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	for _, name := range order {
		_, err := js.Stream(ctx, name)
		if err == nil {
			return fmt.Errorf("there is a stream %s already: a backup is restored into an empty NATS only. End coordinators and workers, and give the server an empty data directory", name)
		}
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("stream %s: %w", name, err)
		}
	}
	var made []string
	defer func() {
		if err == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), silence)
		defer cancel()
		for _, name := range made {
			if gone := js.DeleteStream(ctx, name); gone != nil && !errors.Is(gone, jetstream.ErrStreamNotFound) {
				err = errors.Join(err, fmt.Errorf("stream %s, made in part, could not be deleted: %w", name, gone))
			}
		}
	}()
	_, err = read(r, func(s *reader) error {
		made = append(made, s.Name)
		if err := s.restore(ctx, nc, replicas); err != nil {
			return err
		}
		told(Stream{s.Name, s.messages(), s.bytes})
		return nil
	})
	return err
}

// reader is one stream in a backup.
type reader struct {
	meta
	tar   *tar.Reader
	hash  hash.Hash
	n     int
	bytes int64
}

func (s *reader) messages() uint64 {
	var state jetstream.StreamState
	_ = json.Unmarshal(s.State, &state) // was read before
	return state.Msgs
}

// read goes along a backup; each reads a stream's pieces to their end.
func read(from io.Reader, each func(*reader) error) (made time.Time, err error) {
	t := tar.NewReader(from)
	var a about
	if err := document(t, aboutFile, &a); err != nil {
		return made, fmt.Errorf("this is no backup of 'ao backup': %w", err)
	}
	names, err := a.names()
	if err != nil {
		return made, err
	}
	for _, name := range names {
		s := &reader{tar: t, hash: sha256.New()}
		if err := document(t, name+"/"+streamFile, &s.meta); err != nil {
			return made, broken(err)
		}
		if s.Name != name {
			return made, broken(fmt.Errorf("%s is in the place of %s", s.Name, name))
		}
		if err := json.Unmarshal(s.State, &jetstream.StreamState{}); err != nil {
			return made, broken(fmt.Errorf("stream %s: %w", name, err))
		}
		if err := each(s); err != nil {
			return made, fmt.Errorf("stream %s: %w", name, err)
		}
	}
	var w whole
	if err := document(t, completeFile, &w); err != nil {
		return made, broken(err)
	}
	if !slices.Equal(w.Streams, names) {
		return made, broken(fmt.Errorf("it names the streams %v", w.Streams))
	}
	return a.Made, nil
}

// names are the streams of a backup.
func (a about) names() ([]string, error) {
	switch a.Version {
	case 1:
		return required, nil
	case version:
	default:
		return nil, fmt.Errorf("the backup is of version %d, this program knows %d; use the program that it was made with, or a newer one", a.Version, version)
	}
	known := slices.DeleteFunc(slices.Clone(order), func(name string) bool { return !slices.Contains(a.Streams, name) })
	missing := slices.ContainsFunc(required, func(name string) bool { return !slices.Contains(known, name) })
	if missing || !slices.Equal(known, a.Streams) {
		return nil, fmt.Errorf("the backup has the streams %v, this program knows %v; use the program that it was made with, or a newer one", a.Streams, order)
	}
	return known, nil
}

func broken(err error) error { return fmt.Errorf("the backup is not whole: %w", err) }

// document reads the next member, which has that name.
func document(t *tar.Reader, name string, into any) error {
	h, err := t.Next()
	if err == io.EOF {
		return fmt.Errorf("it ends before %s", name)
	}
	if err != nil {
		return fmt.Errorf("before %s: %s", name, fault.Describe(err))
	}
	if h.Name != name {
		return fmt.Errorf("%.80q is in the place of %s", h.Name, name)
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

// piece gives the next piece; io.EOF: that was all, and it is what was written.
func (s *reader) piece() ([]byte, error) {
	h, err := s.tar.Next()
	switch {
	case err == io.EOF:
		return nil, broken(fmt.Errorf("it ends in the middle of %s", s.Name))
	case err != nil:
		return nil, broken(err)
	}
	body, err := io.ReadAll(io.LimitReader(s.tar, 2<<20))
	if err != nil {
		return nil, broken(err)
	}
	if h.Name == s.Name+"/"+endFile {
		var want sum
		if err := json.Unmarshal(body, &want); err != nil {
			return nil, broken(err)
		}
		if got := (sum{s.n, s.bytes, hex.EncodeToString(s.hash.Sum(nil))}); got != want {
			return nil, broken(fmt.Errorf("%s has %d pieces, %d bytes, SHA-256 %s; it should have %d, %d, %s", s.Name, got.Pieces, got.Bytes, got.SHA256, want.Pieces, want.Bytes, want.SHA256))
		}
		return nil, io.EOF
	}
	s.n++
	if want := fmt.Sprintf("%s/%06d", s.Name, s.n); h.Name != want {
		return nil, broken(fmt.Errorf("%.80q is in the place of %s", h.Name, want))
	}
	s.hash.Write(body)
	s.bytes += int64(len(body))
	return body, nil
}

// restore has the server make the stream: it is told what the stream is, gets the pieces one by one, confirming each, and tells what became of it.
func (s *reader) restore(ctx context.Context, nc *nats.Conn, replicas int) error {
	config, err := s.config(replicas)
	if err != nil {
		return err
	}
	ask, err := json.Marshal(map[string]json.RawMessage{"config": config, "state": s.State})
	if err != nil {
		return err
	}
	var begun struct {
		Deliver string `json:"deliver_subject"`
		Error   *jetstream.APIError
	}
	err = patient(ctx, func() error {
		begun.Error = nil
		if err := request(ctx, nc, "$JS.API.STREAM.RESTORE."+s.Name, ask, &begun); err != nil {
			return err
		}
		if begun.Error != nil {
			return begun.Error
		}
		return nil
	})
	if err != nil {
		return err
	}
	for {
		body, err := s.piece()
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return err
		}
		answer, err := send(ctx, nc, begun.Deliver, body)
		if err != nil {
			return err
		}
		if !end && len(bytes.TrimSpace(answer)) == 0 {
			continue
		}
		var r struct{ Error *jetstream.APIError }
		if err := json.Unmarshal(answer, &r); err != nil {
			return fmt.Errorf("the server's answer cannot be read: %w", err)
		}
		if r.Error != nil {
			return r.Error
		}
		if end {
			return nil
		}
	}
}

// codeNoPeers is JetStream's: not enough servers of a cluster are there, or have room.
const codeNoPeers = 10005

// patient does again, for a while, what a cluster refuses whose servers do not all know of each other yet.
func patient(ctx context.Context, ask func() error) error {
	for began := time.Now(); ; {
		err := ask()
		no, ok := errors.AsType[*jetstream.APIError](err)
		if !ok || no.ErrorCode != codeNoPeers || !strings.Contains(no.Description, "offline") || time.Since(began) > silence {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// send hands over a piece; nothing at all ends the stream, and is answered when it stands, which can take long.
func send(ctx context.Context, nc *nats.Conn, to string, body []byte) ([]byte, error) {
	limit := silence
	if len(body) == 0 {
		limit = 10 * time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	m, err := nc.RequestWithContext(ctx, to, body)
	for began := time.Now(); errors.Is(err, nats.ErrNoResponders) && time.Since(began) < silence; m, err = nc.RequestWithContext(ctx, to, body) {
		select { // in a cluster the server that takes it may not be known of yet to ours; nobody got it
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("the server does not confirm, for %s", limit)
	}
	if err != nil {
		return nil, err
	}
	return m.Data, nil
}

// config is what the stream is to be: as it was, with other replicas. The server calls a restored stream a new one; the inbox's messages keep their
// keys by what is said here (bus.Bus.Inbox), so that one whose run was accepted just before does not begin another.
func (s *reader) config(replicas int) (json.RawMessage, error) {
	var c map[string]json.RawMessage
	if err := json.Unmarshal(s.Config, &c); err != nil {
		return nil, broken(err)
	}
	c["num_replicas"] = json.RawMessage(strconv.Itoa(replicas))
	if s.Name != subject.Inbox {
		return json.Marshal(c)
	}
	var state jetstream.StreamState
	if err := json.Unmarshal(s.State, &state); err != nil {
		return nil, broken(err)
	}
	meta := map[string]string{}
	if raw, ok := c["metadata"]; ok {
		if err := json.Unmarshal(raw, &meta); err != nil {
			return nil, broken(err)
		}
	}
	meta[bus.InboxPastKey] = bus.InboxPast(meta[bus.InboxPastKey], s.Created, state.LastSeq)
	raw, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	c["metadata"] = raw
	return json.Marshal(c)
}
