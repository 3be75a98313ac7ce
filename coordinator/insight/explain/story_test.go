package explain

import (
	"context"
	"fmt"
	"testing"
	"time"

	"ao/coordinator/projection/query"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/run"
)

// slowRecords gives records only while as many readers wait as a story may have.
type slowRecords struct {
	full map[uint64]bus.Message
	in   chan struct{} // receives each reader of a whole record
	out  chan struct{} // closed when all are there
}

func (s *slowRecords) Get(ctx context.Context, seq uint64) (bus.Message, error) {
	s.in <- struct{}{}
	select {
	case <-s.out:
		return s.full[seq], nil
	case <-ctx.Done():
		return bus.Message{}, ctx.Err()
	}
}

func (*slowRecords) Last(context.Context, string) (bus.Message, error) {
	return bus.Message{}, bus.ErrNotFound
}

func (*slowRecords) Records(context.Context, string, uint64, int) ([]bus.Message, error) {
	return nil, nil
}

func (*slowRecords) Events(context.Context, string, uint64, int) ([]bus.Message, error) {
	return nil, nil
}

// A story's records are read together: nobody holds the narrator's lock while NATS is asked, and each record is
// described once (run with -race).
func TestRecordsOfAStoryAreReadTogether(t *testing.T) {
	const id = "run_1"
	records := &slowRecords{full: map[uint64]bus.Message{}, in: make(chan struct{}), out: make(chan struct{})}
	trace := query.Trace{Run: run.Run{ID: id, Agent: "poet", Status: run.Pending,
		Attempt: storyReaders}}
	for n := range storyReaders {
		seq := uint64(n + 1)
		trace.Full = append(trace.Full, seq)
		records.full[seq] = bus.Message{Seq: seq, Subject: subject.Queued("7", "procedural._._", id, n+1),
			Body: []byte(`{"v":1}`), Time: time.Unix(int64(n), 0)}
	}
	go func() {
		for range storyReaders {
			<-records.in
		}
		close(records.out)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	n := narrator{Source: Source{Records: records, Key: func(run string, n int) string { return fmt.Sprint(run, n) }},
		t: trace, keyed: map[int][]keyed{}, bounds: map[int]int{}, definitions: map[uint64]string{}}
	story, err := n.tell(ctx)
	queued := 0
	for _, s := range story {
		if s.What == stepQueued {
			queued++
		}
	}
	if err != nil || queued != storyReaders || len(n.definitions) != storyReaders {
		t.Errorf("%d of %d records are told, %d definitions: %v", queued, storyReaders, len(n.definitions), err)
	}
}
