package backup_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"ao/nats/backup"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// fill gives every stream something: large and small, gaps, headers, records that were deleted.
func fill(t *testing.T, nc *nats.Conn) {
	t.Helper()
	js := stream(t, nc)
	put := func(subj string, size int, header ...string) {
		t.Helper()
		m := nats.NewMsg(subj)
		m.Data = bytes.Repeat([]byte(subj+" "), 1+size/(len(subj)+1))
		for i := 0; i+1 < len(header); i += 2 {
			m.Header.Set(header[i], header[i+1])
		}
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatalf("%s: %v", subj, err)
		}
	}
	for i := range 400 {
		put(fmt.Sprintf("ao.runs.0.accepted.ses_%d.run_%d", i, i), 10*i)
		put(fmt.Sprintf("ao.events.0.ses_%d.run_%d.message", i, i), 3000, "Key", "Value")
	}
	put("ao.inbox.runs", 10)
	put("ao.inbox.runs", 20, "Nats-Msg-Id", "x")
	put("ao.rejected.runs", 20)
	for _, name := range []string{subject.Agents, subject.Schemas, subject.Secrets, subject.Reservations} {
		kv, err := js.KeyValue(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"a", "b", "a"} {
			if _, err := kv.Put(t.Context(), key, []byte(name+key)); err != nil {
				t.Fatal(err)
			}
		}
		if err := kv.Delete(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
	}
	store, err := js.ObjectStore(t.Context(), subject.Payloads)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.PutBytes(t.Context(), "large", bytes.Repeat([]byte("0123456789abcdef"), 1<<16)); err != nil {
		t.Fatal(err)
	}
	runs, err := js.Stream(t.Context(), subject.Runs)
	if err != nil {
		t.Fatal(err)
	}
	if err := runs.Purge(t.Context(), jetstream.WithPurgeSequence(50)); err != nil {
		t.Fatal(err)
	}
	for _, seq := range []uint64{60, 61, 399} {
		if err := runs.DeleteMsg(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
	}
}

func stream(t *testing.T, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// all is everything in all streams, as text.
func all(t *testing.T, nc *nats.Conn) string {
	t.Helper()
	var out strings.Builder
	js := stream(t, nc)
	names := js.StreamNames(t.Context())
	var streams []string
	for name := range names.Name() {
		if name == "KV_"+subject.HighWater { // of one stream only: a restore begins another
			continue
		}
		streams = append(streams, name)
	}
	slices.Sort(streams)
	for _, name := range streams {
		s, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		i := s.CachedInfo()
		fmt.Fprintf(&out, "%s: %d messages, %d to %d, one per subject %v\n", name, i.State.Msgs,
			max(i.State.FirstSeq, 1), i.State.LastSeq, i.Config.DiscardNewPerSubject)
		for seq := i.State.FirstSeq; seq <= i.State.LastSeq && i.State.Msgs > 0; seq++ {
			m, err := s.GetMsg(t.Context(), seq)
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				continue
			}
			if err != nil {
				t.Fatalf("%s %d: %v", name, seq, err)
			}
			fmt.Fprintf(&out, "%d %s %s %v %s\n", seq, m.Time, m.Subject, m.Header, m.Data)
		}
	}
	return out.String()
}

func write(t *testing.T, nc *nats.Conn) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := backup.Write(t.Context(), nc, &b, func(backup.Stream) {}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestBackupAndRestore(t *testing.T) {
	from, to := natstest.Server(t), natstest.Server(t)
	old, anew := natstest.Conn(t, from), natstest.Conn(t, to)
	if err := natstest.Open(t, from).Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	fill(t, old)
	file := write(t, old)
	made, streams, err := backup.Check(bytes.NewReader(file))
	if err != nil || made.IsZero() || len(streams) != 14 || streams[1].Name != subject.Runs ||
		streams[1].Messages != 348 {
		t.Fatalf("made %s, streams %v, %v", made, streams, err)
	}
	restored := 0
	if err := backup.Restore(t.Context(), anew, bytes.NewReader(file), 1,
		func(backup.Stream) { restored++ }); err != nil || restored != 14 {
		t.Fatalf("%d streams, %v", restored, err)
	}
	if a, b := all(t, old), all(t, anew); a != b {
		t.Errorf("restored it is %d bytes, was %d:\n%s\nwas\n%s", len(b), len(a), lines(b, a), lines(a, b))
	}
	// What everything rests on holds on: a subject takes one message, ever.
	if _, err := stream(t, anew).Publish(t.Context(), "ao.runs.0.accepted.ses_100.run_100", nil); err == nil {
		t.Error("a subject that had its message took another one")
	}
	ack, err := stream(t, anew).Publish(t.Context(), "ao.runs.0.accepted.ses_400.run_400", nil)
	if err != nil || ack.Sequence != 401 {
		t.Errorf("the next record: %+v, %v", ack, err)
	}
	// Coordinators take it as theirs, and a backup of it is one again.
	if err := natstest.Open(t, to).Setup(t.Context()); err != nil {
		t.Error(err)
	}
	if _, _, err := backup.Check(bytes.NewReader(write(t, anew))); err != nil {
		t.Error(err)
	}
	if err := backup.Restore(t.Context(), anew, bytes.NewReader(file), 1, func(backup.Stream) {}); err == nil ||
		!strings.Contains(err.Error(), "NATS already has a stream INBOX") {
		t.Errorf("over what is there: %v", err)
	}
}

// TestAKilledRestore: until a restore has finished, coordinators and backups refuse what is there, even if only the
// last entry of the file is missing. A new restore begins anew.
func TestAKilledRestore(t *testing.T) {
	from, to := natstest.Server(t), natstest.Server(t)
	old := natstest.Conn(t, from)
	if err := natstest.Open(t, from).Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	fill(t, old)
	file := write(t, old)
	at, rest := io.Pipe()
	killed, ended := natstest.Conn(t, to), make(chan error, 1)
	go func() { ended <- backup.Restore(t.Context(), killed, at, 1, func(backup.Stream) {}) }()
	if _, err := rest.Write(file[:len(file)-2048]); err != nil { // all but complete.json
		t.Fatal(err)
	}
	killed.Close()
	rest.Close()
	if err := <-ended; err == nil {
		t.Fatal("it has finished")
	}

	anew, b := natstest.Conn(t, to), natstest.Open(t, to)
	done := make(chan error, 1)
	go func() { done <- b.Setup(t.Context()) }()
	natstest.Until(t, "a coordinator waits and says why", func() bool {
		err := b.Storage()
		return err != nil && strings.Contains(err.Error(), "a restore into this NATS has not finished")
	})
	if err := backup.Write(t.Context(), anew, io.Discard, func(backup.Stream) {}); err == nil ||
		!strings.Contains(err.Error(), "a restore into this NATS has not finished") {
		t.Errorf("a backup of it: %v", err)
	}
	if err := backup.Restore(t.Context(), anew, bytes.NewReader(file), 1, func(backup.Stream) {}); err != nil {
		t.Fatal(err)
	}
	if a, b := all(t, old), all(t, anew); a != b {
		t.Errorf("restored it is %d bytes, was %d", len(b), len(a))
	}
	if err := <-done; err != nil || b.Storage() != nil {
		t.Errorf("when it has finished: %v, %v", err, b.Storage())
	}
}

// lines are those of a that b has not, a few of them.
func lines(a, b string) string {
	var only []string
	have := map[string]bool{}
	for line := range strings.Lines(b) {
		have[line] = true
	}
	for line := range strings.Lines(a) {
		if !have[line] && len(only) < 5 {
			only = append(only, fmt.Sprintf("%.200s", line))
		}
	}
	return strings.Join(only, "\n")
}

func TestAnInboxMessageKeepsItsKey(t *testing.T) {
	from, to := natstest.Server(t), natstest.Server(t)
	keys := func(b *bus.Bus, want int) (got []string) {
		t.Helper()
		ctx, done := context.WithCancel(t.Context())
		defer done()
		seen := make(chan string, 10)
		over := make(chan error, 1)
		go func() {
			over <- b.Inbox(ctx, func(_ context.Context, m bus.InboxMessage) error {
				seen <- m.Key
				return errors.New("not now")
			})
		}()
		for range want {
			got = append(got, <-seen)
		}
		done()
		<-over
		slices.Sort(got)
		return slices.Compact(got)
	}
	b := natstest.Open(t, from)
	if err := b.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	old := natstest.Conn(t, from)
	if _, err := stream(t, old).Publish(t.Context(), subject.InboxRuns, []byte("one")); err != nil {
		t.Fatal(err)
	}
	before := keys(b, 1)
	file := write(t, old)
	anew := natstest.Conn(t, to)
	if err := backup.Restore(t.Context(), anew, bytes.NewReader(file), 1, func(backup.Stream) {}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream(t, anew).Publish(t.Context(), subject.InboxRuns, []byte("two")); err != nil {
		t.Fatal(err)
	}
	b = natstest.Open(t, to)
	if err := b.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := keys(b, 2)
	if len(after) != 2 || !slices.Contains(after, before[0]) {
		t.Errorf("before %v, restored %v: the first one's key should stand, and another", before, after)
	}
	for _, k := range after {
		if k != before[0] && strings.HasPrefix(k, before[0][:strings.Index(before[0], "-")]) {
			t.Errorf("a new message, %s, is named as one of the old inbox, %s", k, before[0])
		}
	}
}

// TestInboxMessagesAreKept: a backup has every message that was in the inbox before it began. A coordinator may
// accept such a message during the backup. The backup then has it as a message, as a run, or as both.
func TestInboxMessagesAreKept(t *testing.T) {
	s := natstest.Server(t)
	b := natstest.Open(t, s)
	if err := b.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	nc := natstest.Conn(t, s)
	js := stream(t, nc)
	if _, err := js.Publish(t.Context(), subject.InboxRuns, []byte("left")); err != nil {
		t.Fatal(err)
	}
	stored := func(js jetstream.JetStream, name string) uint64 {
		t.Helper()
		i, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return i.CachedInfo().State.Msgs
	}
	accept := func(backup.Stream) { // as coordinators do
		ctx, done := context.WithCancel(t.Context())
		defer done()
		err := b.Inbox(ctx, func(ctx context.Context, m bus.InboxMessage) error {
			defer done()
			_, err := js.Publish(ctx, "ao.runs.0.accepted.ses_1.run_1", m.Body)
			return err
		})
		if err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		natstest.Until(t, "the inbox is empty", func() bool { return stored(js, subject.Inbox) == 0 })
	}
	var once sync.Once
	var file bytes.Buffer
	if err := backup.Write(t.Context(), nc, &file,
		func(s backup.Stream) { once.Do(func() { accept(s) }) }); err != nil {
		t.Fatal(err)
	}
	anew := natstest.Conn(t, natstest.Server(t))
	if err := backup.Restore(t.Context(), anew, &file, 1, func(backup.Stream) {}); err != nil {
		t.Fatal(err)
	}
	if js := stream(t, anew); stored(js, subject.Inbox)+stored(js, subject.Runs) == 0 {
		t.Error("the message was accepted while the backup was made, and is neither in the inbox nor a run")
	}
}

// TestABackupWithAnUnreadableMark: the mark's damages are missing, and everything else is there.
func TestABackupWithAnUnreadableMark(t *testing.T) {
	p := natstest.Proc(t)
	b := p.Bus(t)
	if _, err := b.Bucket(subject.HighWater).Create(t.Context(), subject.MarkKey, []byte(`{"v":1}`)); err != nil {
		t.Fatal(err)
	}
	if file := write(t, p.Conn(t)); !bytes.Contains(file, []byte(`"highwater":{"v":1}`)) {
		t.Error("the backup does not have the mark")
	}
	p.Stop()
	p.FlipRecord("KV_"+subject.HighWater, "$KV."+subject.HighWater+"."+subject.MarkKey)
	p.Start()
	file := write(t, p.Conn(t))
	if _, streams, err := backup.Check(bytes.NewReader(file)); err != nil || len(streams) != 14 ||
		bytes.Contains(file, []byte(`"highwater":{`)) {
		t.Errorf("with an unreadable mark: streams %v, %v", streams, err)
	}
}

// TestABackupOfAnOlderProgram has the streams that there were then, whether its file names them or not.
func TestABackupOfAnOlderProgram(t *testing.T) {
	s := natstest.Server(t)
	if err := natstest.Open(t, s).Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	nc := natstest.Conn(t, s)
	fill(t, nc)
	for _, later := range []string{"KV_" + subject.Logins, subject.Audit, "KV_" + subject.Drafts} {
		if err := stream(t, nc).DeleteStream(t.Context(), later); err != nil {
			t.Fatal(err)
		}
	}
	file := write(t, nc)
	for name, file := range map[string][]byte{"named": file,
		"unnamed": replace(t, file, "backup.json", []byte(`{"version":1,"made_at":"2026-01-01T00:00:00Z"}`))} {
		anew := natstest.Conn(t, natstest.Server(t))
		restored := 0
		if err := backup.Restore(t.Context(), anew, bytes.NewReader(file), 1,
			func(backup.Stream) { restored++ }); err != nil || restored != 11 || all(t, nc) != all(t, anew) {
			t.Errorf("%s: %d streams, %v", name, restored, err)
		}
	}
}

// What is broken is recognized, and leaves nothing behind.
func TestIncompleteBackupIsRefused(t *testing.T) {
	s := natstest.Server(t)
	if err := natstest.Open(t, s).Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	nc := natstest.Conn(t, s)
	fill(t, nc)
	file := write(t, nc)
	flipped := bytes.Clone(file)
	at := bytes.Index(flipped, []byte("EVENTS/000001"))
	flipped[at+512+3000] ^= 1
	empty := natstest.Conn(t, natstest.Server(t))
	for _, tt := range []struct {
		name string
		file []byte
		want string
	}{
		{"nothing", nil, "not a file written by 'ao backup': it ends before backup.json"},
		{"something else", []byte(strings.Repeat("x", 1000)), "not a file written by 'ao backup'"},
		{"half of it", file[:len(file)/2], "the backup is incomplete"},
		{"without its end", file[:bytes.LastIndex(file, []byte("complete.json"))],
			"the backup is incomplete: it ends before complete.json"},
		{"a bit is another one", flipped, "SHA-256"},
		{"of a later version", replace(t, file, "backup.json", []byte(`{"version":3}`)), "version 3"},
		{"with streams of a later program",
			replace(t, file, "backup.json", []byte(`{"version":2,"streams":["INBOX","NEW"]}`)),
			"has the streams [INBOX NEW]"},
		{"a stream in the place of another",
			replace(t, file, "RUNS/stream.json", []byte(`{"name":"INBOX","state":{},"config":{}}`)),
			"found INBOX instead of RUNS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, _, err := backup.Check(bytes.NewReader(tt.file)); err == nil ||
				!strings.Contains(err.Error(), tt.want) {
				t.Errorf("looked at: %v, want %q", err, tt.want)
			}
			if err := backup.Restore(t.Context(), empty, bytes.NewReader(tt.file), 1,
				func(backup.Stream) {}); err == nil {
				t.Error("it was restored")
			}
			natstest.Until(t, "nothing is left of it", func() bool { return all(t, empty) == "" })
		})
	}
	if err := backup.Write(t.Context(), empty, io.Discard, func(backup.Stream) {}); err == nil ||
		!strings.Contains(err.Error(), "NATS has no stream INBOX") {
		t.Errorf("a backup of nothing: %v", err)
	}
}

// replace is the file with another body in one member.
func replace(t *testing.T, file []byte, name string, body []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	r, w := tar.NewReader(bytes.NewReader(file)), tar.NewWriter(&out)
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		was, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.Name == name {
			was, h.Size = body, int64(len(body))
		}
		if err := errors.Join(w.WriteHeader(h), func() error { _, err := w.Write(was); return err }()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestFromOneServerToACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three servers")
	}
	s := natstest.Server(t)
	if err := natstest.Open(t, s).Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	nc := natstest.Conn(t, s)
	fill(t, nc)
	c := natstest.Cluster(t)
	three := c.Conn(t)
	if err := backup.Restore(t.Context(), three, bytes.NewReader(write(t, nc)), 3, func(backup.Stream) {}); err != nil {
		t.Fatal(err)
	}
	c.Current() // whichever replica is asked
	if a, b := all(t, nc), all(t, three); a != b {
		t.Errorf("in the cluster it is %d bytes, was %d:\n%s\nwas\n%s", len(b), len(a), lines(b, a), lines(a, b))
	}
	info, err := stream(t, three).Stream(t.Context(), subject.Runs)
	if err != nil || info.CachedInfo().Config.Replicas != 3 {
		t.Errorf("%+v, %v", info.CachedInfo().Config.Replicas, err)
	}
	one := natstest.Server(t)
	if err := backup.Restore(t.Context(), natstest.Conn(t, one), bytes.NewReader(write(t, three)), 1,
		func(backup.Stream) {}); err != nil {
		t.Errorf("back from the cluster: %v", err)
	}
}
