package bus_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"

	"github.com/nats-io/nats.go"
)

// TestASlowServerIsNotTakenForAFullDisk: from a server that hangs at any moment, is slow or has just written,
// nothing follows.
func TestASlowServerIsNotTakenForAFullDisk(t *testing.T) {
	t.Parallel()
	const hangs = "-"
	agents := "KV_" + subject.Agents
	for name, tt := range map[string]struct {
		stream, before, oldest, probed, after string
		late                                  time.Duration // of after
		full                                  bool
	}{
		"it answers all but writes": {stream: subject.Runs, before: lastSeq(5), oldest: oldest,
			probed: hangs, after: lastSeq(5), full: true},
		"likewise for a bucket": {stream: agents, before: lastSeq(5), probed: hangs, after: lastSeq(5),
			full: true},
		"it refuses the probe": {stream: subject.Runs, before: lastSeq(5), oldest: oldest,
			probed: "{}", after: lastSeq(5)},
		"it hangs before it is looked at": {stream: agents, before: hangs, probed: hangs, after: lastSeq(0)},
		"it hangs after that": {stream: subject.Runs, before: lastSeq(5), oldest: oldest,
			probed: hangs, after: hangs},
		"it writes while it is probed": {stream: subject.Runs, before: lastSeq(5), oldest: oldest,
			probed: hangs, after: lastSeq(6)},
		"it is slow to say that it has not": {stream: subject.Runs, before: lastSeq(5), oldest: oldest,
			probed: hangs, after: lastSeq(5), late: 2 * bus.Prompt},
		"RUNS is empty, and cannot be asked": {stream: subject.Runs, before: lastSeq(0), oldest: none, probed: hangs,
			after: lastSeq(0)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checks := 0
			b := scripted(t, func(subj string) (answer string, late time.Duration) {
				switch {
				case subj == "$JS.API.STREAM.INFO."+tt.stream:
					checks++
					if checks%2 == 1 {
						return tt.before, 0
					}
					return tt.after, tt.late
				case subj == "$JS.API.DIRECT.GET."+subject.Runs:
					return tt.oldest, 0
				}
				return tt.probed, 0
			})
			full := func() bool { return errors.Is(b.Judge(t.Context(), tt.stream), bus.ErrStorageFailing) }
			if tt.full { // unless this machine is slow
				natstest.Until(t, "its disk is taken for full", full)
			} else if full() {
				t.Error("its disk is taken for full")
			}
		})
	}
}

// What a server answers: what it says of a stream, of the oldest record of RUNS, and that there is none.
const (
	oldest = "NATS/1.0\r\nNats-Stream: RUNS\r\nNats-Subject: ao.runs.01.ended.first.key\r\nNats-Sequence: " +
		"1\r\nNats-Time-Stamp: 2026-01-02T03:04:05Z\r\n\r\n"
	none = "NATS/1.0 404 Message Not Found\r\n\r\n"
)

func lastSeq(n int) string {
	return fmt.Sprintf(`{"type":"io.nats.jetstream.api.v1.stream_info_response","config":{},"state":{"last_seq":%d}}`,
		n)
}

// scripted is a bus on a server that answers requests by their subject: with headers, with a body, or not at all
// where that is "-".
func scripted(t *testing.T, answer func(subj string) (string, time.Duration)) *bus.Bus {
	t.Helper()
	return scriptedAs(t, bus.MinServer.String()+".0", answer)
}

// scriptedAs is scripted with the version that the server reports.
func scriptedAs(t *testing.T, version string, answer func(subj string) (string, time.Duration)) *bus.Bus {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	serving.Go(func() {
		if conn, err := listener.Accept(); err == nil {
			serve(conn, version, answer)
		}
	})
	nc, err := nats.Connect("nats://"+listener.Addr().String(), nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	b, err := bus.Open(nc, bus.Config{Log: natstest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// serve speaks as much of NATS's protocol as a client of one connection needs to ask for something.
func serve(conn net.Conn, version string, answer func(string) (string, time.Duration)) {
	defer conn.Close()
	fmt.Fprintf(conn,
		"INFO {\"server_id\":\"scripted\",\"version\":%q,\"headers\":true,\"max_payload\":1048576}\r\n", version)
	inboxes := map[string]string{} // sid by prefix
	lines := bufio.NewReader(conn)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		words := strings.Fields(line)
		switch words[0] {
		case "PING":
			fmt.Fprint(conn, "PONG\r\n")
		case "SUB":
			inboxes[strings.TrimSuffix(words[1], "*")] = words[len(words)-1]
		case "PUB", "HPUB": // subject, reply, sizes
			size, err := strconv.Atoi(words[len(words)-1])
			if err == nil {
				_, err = io.CopyN(io.Discard, lines, int64(size)+2)
			}
			if err != nil {
				return
			}
			reply, late := answer(words[1])
			<-time.After(late)
			for prefix, sid := range inboxes {
				switch {
				case reply == "-" || !strings.HasPrefix(words[2], prefix):
				case strings.HasPrefix(reply, "NATS/1.0"):
					fmt.Fprintf(conn, "HMSG %s %s %d %d\r\n%s\r\n", words[2], sid, len(reply), len(reply), reply)
				default:
					fmt.Fprintf(conn, "MSG %s %s %d\r\n%s\r\n", words[2], sid, len(reply), reply)
				}
			}
		}
	}
}

// TestSlowServerIsExaminedAgain: as long as a write is unanswered, so that a full disk is reported also where the first
// check found nothing.
func TestSlowServerIsExaminedAgain(t *testing.T) {
	t.Parallel()
	info := strings.Replace(lastSeq(5), `{}`, `{"max_msgs_per_subject":1}`, 1) // a bucket's, too
	for name, tt := range map[string]struct {
		slow  int32 // the answer that ends the first look
		write func(*bus.Bus) error
	}{
		"a record": {2, func(b *bus.Bus) error {
			_, err := b.Append(t.Context(), bus.Entry{Subject: subject.Ended("01", "run", "key"), Body: []byte("{}")})
			return err
		}},
		"a definition": {3, func(b *bus.Bus) error { // whose bucket is opened first
			_, err := b.Bucket(subject.Agents).Put(t.Context(), "k", []byte("{}"))
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var answers atomic.Int32
			b := scripted(t, func(subj string) (answer string, late time.Duration) {
				switch {
				case strings.HasPrefix(subj, "$JS.API.STREAM.INFO."):
					if answers.Add(1) == tt.slow {
						return info, 2 * bus.Prompt
					}
					return info, 0
				case subj == "$JS.API.DIRECT.GET."+subject.Runs:
					return oldest, 0
				}
				return "-", 0
			})
			if err := tt.write(b); !errors.Is(err, bus.ErrStorageFailing) {
				t.Errorf("after %d answers: %v", answers.Load(), err)
			}
		})
	}
}
