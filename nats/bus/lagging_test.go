package bus_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	runs "ao/shared/run"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// lagging is a bus whose direct gets reach a replica that has nothing yet, as soon as the switch says so.
func lagging(t *testing.T, c *natstest.ClusterProcs) (b *bus.Bus, lags *atomic.Bool, answers *atomic.Int64) {
	t.Helper()
	lags, answers = new(atomic.Bool), new(atomic.Int64)
	_, err := c.Conn(t).Subscribe("$XX.API.DIRECT.GET.>", func(m *nats.Msg) {
		answers.Add(1)
		m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"404"}, "Description": {"Message Not Found"}}})
	})
	if err != nil {
		t.Fatal(err)
	}
	url := renaming(t, c.Servers[0].URL(), lags, "$JS.API.DIRECT.GET.", "$XX.API.DIRECT.GET.")
	nc, err := bus.Connect(t.Context(), url, t.Name(), natstest.Log(t))
	if err == nil {
		t.Cleanup(nc.Close)
		b, err = bus.Open(nc, bus.Config{Replicas: len(c.Servers), Log: natstest.Log(t)})
	}
	if err != nil {
		t.Fatal(err)
	}
	return b, lags, answers
}

// renaming returns the URL of a proxy that renames subjects of requests while on. Both names are of the same length.
func renaming(t *testing.T, to string, on *atomic.Bool, from, with string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", strings.TrimPrefix(to, "nats://"))
			if err != nil {
				client.Close()
				continue
			}
			go func() {
				io.Copy(client, server)
				client.Close()
			}()
			go func() {
				defer server.Close()
				for buffer := make([]byte, 64<<10); ; {
					n, err := client.Read(buffer)
					sent := buffer[:n]
					if on.Load() {
						sent = bytes.ReplaceAll(sent, []byte(from), []byte(with))
					}
					if _, failed := server.Write(sent); err != nil || failed != nil {
						return
					}
				}
			}()
		}
	}()
	return "nats://" + l.Addr().String()
}

// TestAStreamThatAServerDoesNotKnowYet: another coordinator has just created it, and its leader answers "not found".
func TestAStreamThatAServerDoesNotKnowYet(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t, natstest.Listen("127.0.0.1:0"))
	var on atomic.Bool
	var asked atomic.Int64
	on.Store(true)
	_, err := natstest.Conn(t, s).Subscribe("$XX.API.STREAM.INFO.INBOX", func(m *nats.Msg) {
		if asked.Add(1) == 3 {
			on.Store(false)
		}
		m.Respond([]byte(`{"type":"io.nats.jetstream.api.v1.stream_info_response",` +
			`"error":{"code":404,"err_code":10059,"description":"stream not found"}}`))
	})
	if err != nil {
		t.Fatal(err)
	}
	url := renaming(t, s.URL(), &on, "$JS.API.STREAM.INFO.INBOX", "$XX.API.STREAM.INFO.INBOX")
	nc, err := bus.Connect(t.Context(), url, t.Name(), natstest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	b, err := bus.Open(nc, bus.Config{Log: natstest.Log(t)})
	if err == nil {
		err = b.Setup(t.Context())
	}
	if err != nil || asked.Load() < 3 {
		t.Errorf("%v, after %d answers", err, asked.Load())
	}
}

// A replica answers also while it has yet to catch up. Only the leader may answer that a record does not exist.
func TestAReplicaThatLagsBehind(t *testing.T) {
	t.Parallel()
	c := natstest.Cluster(t)
	c.Bus(t)
	b, lags, answers := lagging(t, c)
	seq, err := b.Append(t.Context(), bus.Entry{Subject: ended(1), Body: []byte("over")})
	if err != nil {
		t.Fatal(err)
	}
	there, err := b.Get(t.Context(), seq)
	if err != nil {
		t.Fatal(err)
	}
	part := bytes.Repeat([]byte("x"), runs.PartSize)
	for n, body := range [][]byte{part, nil} {
		if err := b.PutPart(t.Context(), "run_1.in", n, body); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.PutPart(t.Context(), "run_2.in", 0, part); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "the payload is listed, and dropped", func() bool { // a late replica lists no such payload
		listed := false
		err := b.DropPayloads(t.Context(), func(name string, _ uint64, _ time.Time) bool {
			listed = listed || name == "run_2.in"
			return name == "run_2.in"
		})
		return err == nil && listed
	})
	js, err := jetstream.New(c.Conn(t))
	if err != nil {
		t.Fatal(err)
	}
	var acked [2]uint64
	for n := range acked {
		ack, err := js.Publish(t.Context(),
			subject.Event(subject.Partition("ses_1"), "ses_1", "run_"+strconv.Itoa(n), "message"), nil)
		if err != nil {
			t.Fatal(err)
		}
		acked[n] = ack.Sequence
	}
	os, err := js.ObjectStore(t.Context(), subject.Payloads)
	if err != nil {
		t.Fatal(err)
	}
	// in several messages
	if _, err := os.Put(t.Context(), jetstream.ObjectMeta{Name: "run_3.in/0"}, bytes.NewReader(part)); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(chunk string) error{
		"run_4.in": func(chunk string) error { _, err := js.Publish(t.Context(), chunk, []byte("damage")); return err },
		"run_5.in": func(chunk string) error { return b.Purge(t.Context(), "OBJ_"+subject.Payloads, chunk, 0) },
	} {
		if err := b.PutPart(t.Context(), name, 0, part); err != nil {
			t.Fatal(err)
		}
		var i *jetstream.ObjectInfo
		natstest.Until(t, "the part is there", func() bool {
			var err error
			i, err = os.GetInfo(t.Context(), name+"/0")
			return err == nil
		})
		if err := spoil("$O." + subject.Payloads + ".C." + i.NUID); err != nil {
			t.Fatal(err)
		}
	}
	c.Current()
	lags.Store(true)
	for range 3 {
		for what, read := range map[string]func() (bus.Message, error){
			"by sequence": func() (bus.Message, error) { return b.Get(t.Context(), seq) },
			"by subject":  func() (bus.Message, error) { return b.Last(t.Context(), ended(1)) },
		} {
			m, err := read()
			if err != nil || m.Seq != seq || m.Subject != ended(1) || string(m.Body) != "over" ||
				!m.Time.Equal(there.Time) {
				t.Fatalf("%s: got %+v, %v, want %+v", what, m, err, there)
			}
		}
		for n, want := range [][]byte{part, nil} {
			if body, err := b.GetPart(t.Context(), "run_1.in", n); err != nil || !bytes.Equal(body, want) {
				t.Fatalf("part %d: %d bytes, %v", n, len(body), err)
			}
		}
	}
	for run, want := range acked {
		m, err := b.NextEvent(t.Context(), subject.RunEvents("ses_1", "run_"+strconv.Itoa(run)), 0)
		if err != nil || m.Seq != want {
			t.Errorf("the event of run %d: got %+v, %v, want %d", run, m, err, want)
		}
		for what, filter := range map[string]string{"its run": subject.RunEvents("ses_1", "run_"+strconv.Itoa(run)),
			"its session": subject.SessionEvents("ses_1")} {
			newest := want
			if what == "its session" {
				newest = acked[1]
			}
			if at, err := b.LastEvent(t.Context(), filter); err != nil || at != newest {
				t.Errorf("the last event of %s: got %d, %v, want %d", what, at, err, newest)
			}
		}
	}
	for n := range 5 {
		if follows, err := b.HasRecords(t.Context(), seq-1, seq); err != nil || !follows {
			t.Errorf("a record that a projection waits for, try %d: %t, %v", n, follows, err)
		}
		if follows, err := b.HasRecords(t.Context(), seq, seq+5); err != nil || follows {
			t.Errorf("a record that there isn't, try %d: %t, %v", n, follows, err)
		}
	}
	if answers.Load() == 0 {
		t.Error("the replica that lags behind was not asked")
	}
	if _, err := b.GetPart(t.Context(), "run_3.in", 0); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a part in several messages is there, and cannot be read at the moment: %v", err)
	}
	for what, read := range map[string]func() error{
		"a sequence": func() error { _, err := b.Get(t.Context(), seq+1); return err },
		"a subject":  func() error { _, err := b.Last(t.Context(), ended(2)); return err },
		"an event": func() error {
			_,
				err := b.NextEvent(t.Context(), subject.SessionEvents("ses_1"), acked[1])
			return err
		},
		"a part":         func() error { _, err := b.GetPart(t.Context(), "run_1.in", 2); return err },
		"a dropped part": func() error { _, err := b.GetPart(t.Context(), "run_2.in", 0); return err },
		"a damaged part": func() error { _, err := b.GetPart(t.Context(), "run_4.in", 0); return err },
		"half a part":    func() error { _, err := b.GetPart(t.Context(), "run_5.in", 0); return err },
	} {
		for n := range 5 {
			if err := read(); !errors.Is(err, bus.ErrNotFound) {
				t.Errorf("%s that there isn't, try %d: %v", what, n, err)
			}
		}
	}
}
