package highwater

import (
	"context"
	"fmt"
	"testing"
	"time"

	"ao/nats/stream"
)

// history is a stream in memory. Removed records are missing from all.
type history struct {
	all     map[uint64]stream.Message
	last    uint64
	created time.Time
}

func newHistory(n uint64) *history {
	h := &history{all: map[uint64]stream.Message{}, created: time.Unix(1, 0)}
	for range n {
		h.append("first")
	}
	return h
}

func (h *history) append(body string) {
	h.last++
	h.all[h.last] = stream.Message{Seq: h.last, Subject: fmt.Sprint("ao.runs.", h.last), Body: []byte(body),
		Time: moment(h.last)}
}

// moment is when a record was written.
func moment(seq uint64) time.Time { return time.Unix(1000+int64(seq), 0) }

// cut drops the records behind a sequence.
func (h *history) cut(at uint64) {
	for ; h.last > at; h.last-- {
		delete(h.all, h.last)
	}
}

func (h *history) State(context.Context) (stream.State, error) {
	return stream.State{First: 1, Last: h.last, LastTime: moment(h.last), Msgs: uint64(len(h.all)),
		Created: h.created}, nil
}

func (h *history) Get(_ context.Context, seq uint64) (stream.Message, error) {
	if m, ok := h.all[seq]; ok {
		return m, nil
	}
	return stream.Message{}, stream.ErrNotFound
}

// TestCompare: what a mark at record 100 reports for each thing that may happen to the stream.
func TestCompare(t *testing.T) {
	for _, tt := range []struct {
		name      string
		happens   func(h *history, m *mark)
		want      string
		tolerated bool
	}{
		{"nothing", func(*history, *mark) {}, "", false},
		{"more records", func(h *history, _ *mark) { h.append("next") }, "", false},
		{"the end is lost", func(h *history, _ *mark) { h.cut(60) },
			"the stream ends at 60, it had reached 100: 40 records are missing", false},
		{"the last one is lost", func(h *history, _ *mark) { h.cut(99) },
			"the stream ends at 99, it had reached 100: 1 record is missing", false},
		{"the end was not synced yet", func(h *history, m *mark) { h.cut(60); m.Durable = 60 },
			"the stream ends at 60, it had reached 100: 40 records are missing", true},
		{"some of the end was synced", func(h *history, m *mark) { h.cut(60); m.Durable = 61 },
			"the stream ends at 60, it had reached 100: 40 records are missing", false},
		{"others got the sequences", func(h *history, _ *mark) {
			h.cut(90)
			for range 20 {
				h.append("other")
			}
		}, "record 100 is not the one that it was: the stream has lost its last records up to 100, " +
			"and others have got their sequences", false},
		{"a gap", func(h *history, _ *mark) { delete(h.all, 40); delete(h.all, 41) },
			"the stream holds 98 records up to 100, it should hold 100: 2 records are missing", false},
		{"a gap, and the last one, whose sequence NATS keeps", func(h *history, _ *mark) {
			h.append("next")
			delete(h.all, 40)
			delete(h.all, 101)
		}, "the stream holds 99 records up to 101, it should hold 101: 2 records are missing", false},
		{"records are removed, as the mark says", func(h *history, m *mark) {
			delete(h.all, 40)
			m.Removing = map[string]time.Time{"me": time.Now()}
		}, "", false},
		{"a removal was never finished", func(h *history, m *mark) {
			delete(h.all, 40)
			m.Removing = map[string]time.Time{"me": time.Now().Add(-time.Hour)}
		}, "the stream holds 99 records up to 100, it should hold 100: 1 record is missing", false},
		{"an older coordinator removed some, long after the mark", func(h *history, _ *mark) {
			delete(h.all, 40)
			for range 100 {
				h.append("next")
			}
		}, "", false},
		{"the last ones were removed", func(h *history, m *mark) {
			delete(h.all, 100)
			m.Records--
		}, "", false},
		{"another stream", func(h *history, _ *mark) { h.cut(0); h.created = time.Unix(2, 0) },
			"the stream RUNS was created anew at 1970-01-01 00:00:02 and ends at 0; the one before had reached 100",
			false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHistory(100)
			s, _ := h.State(t.Context())
			m := &mark{Incarnation: incarnation(s), Seq: 100, Durable: 100, Records: 100,
				Time: h.all[100].Time.UnixNano()}
			for seq := uint64(85); seq <= 100; seq++ {
				p, _ := stream.FingerprintOf(h.all[seq], nil)
				m.Last = append(m.Last, p)
			}
			tt.happens(h, m)
			s, _ = h.State(t.Context())
			d, err := m.compare(t.Context(), s, h)
			if err != nil {
				t.Fatal(err)
			}
			got, tolerated := "", false
			if d != nil {
				got, tolerated = d.Message, d.Tolerated
			}
			if got != tt.want || tolerated != tt.tolerated {
				t.Errorf("got %q, tolerated %v; want %q, %v", got, tolerated, tt.want, tt.tolerated)
			}
		})
	}
}
