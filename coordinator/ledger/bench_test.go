package ledger

import (
	"fmt"
	"testing"
	"time"

	"ao/coordinator/record"
	"ao/nats/bus"
	"ao/nats/subject"
)

// BenchmarkForeignRecords reads records under made-up keys: of runs that nobody knows, and of one that is known.
func BenchmarkForeignRecords(b *testing.B) {
	for _, known := range []bool{false, true} {
		b.Run(fmt.Sprint("known=", known), func(b *testing.B) {
			s := newStory(b)
			a := s.run(s.session()).queued(1)
			v := s.read()
			v.Key = record.NewKeys().Of
			body := []byte(`{"v":1,"session_id":"ses_x","runner_id":"r","attempt":7,"status":"completed"}`)
			b.ResetTimer()
			for i := range b.N {
				id := a.spec.ID
				if !known {
					id = fmt.Sprintf("run_%032x", i)
				}
				v.Add(bus.Message{Seq: v.seq + 1, Subject: subject.Ended("7", id, fmt.Sprintf("%032x", i)), Body: body,
					Time: time.Now()})
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
			if r := v.Close(time.Now(), v.seq); int(r.Foreign) != b.N {
				b.Fatalf("%d of %d are foreign", r.Foreign, b.N)
			}
		})
	}
}
