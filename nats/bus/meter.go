package bus

import (
	"ao/shared/metric"

	"github.com/nats-io/nats.go"
)

// meter is what a bus counts. Its zero value counts nothing.
type meter struct {
	alone, batch *metric.Histogram // how long an append took
	together     *metric.Histogram // how many went in a batch
	taken        *metric.Counter
	rejected     *metric.Counter
	asked        *metric.Histogram
}

// health is what a connection tells of itself at each look.
type health struct {
	connected           func() bool
	storage             func() error // nil: NATS writes
	generation, dropped func() uint64
}

// newMeter makes the meter of a connection, by the connection's name, and has it looked at as long as the registry is.
func newMeter(r *metric.Registry, nc *nats.Conn, now health) (m meter) {
	if r == nil {
		return m
	}
	name := nc.Opts.Name
	appends := r.Histogram("ao_nats_append_seconds", "How long NATS took to take records of the history: one by itself, or many as a batch. A disk that is slow to sync shows here first.", metric.Fast, "connection", "way")
	m.alone, m.batch = appends.With(name, "alone"), appends.With(name, "batch")
	m.together = r.Histogram("ao_nats_batch_records", "How many records a batch had, where appends that came together were written together.", metric.Many, "connection").With(name)
	m.taken = r.Counter("ao_nats_appends_refused_total", "Appends that NATS refused since another was first. That is how several agree, and no trouble.", "connection").With(name)
	m.rejected = r.Counter("ao_rejected_messages_total", "Messages that were put aside in REJECTED with the reason: runs left at the inbox that could not be taken, and queued runs that could not be read.", "connection").With(name)
	m.asked = r.Histogram("ao_nats_request_seconds", "How long requests to other processes took over NATS: heartbeats, registrations, commands, parts of payloads. Also those that nobody answered.", metric.Fast, "connection").With(name)
	up := r.Gauge("ao_nats_connected", "1: the connection to NATS stands; 0: it is away, and being looked for.", "connection")
	stuck := r.Gauge("ao_nats_storage_failing", "1: NATS answers and does not write, since its disk is full or has failed; 0: it writes, as far as is known.", "connection")
	again := r.Count("ao_nats_reconnects_total", "How often the connection to NATS came back.", "connection")
	dropped := r.Count("ao_nats_dropped_total", "How often messages were dropped since this process was too slow to take them.", "connection")
	ends := r.CertificateExpiry()
	r.AtScrape(func(s *metric.Scrape) {
		if state, err := nc.TLSConnectionState(); err == nil && len(state.PeerCertificates) > 0 {
			s.Set(ends, float64(state.PeerCertificates[0].NotAfter.Unix()), "nats", name)
		}
		if own := nc.Opts.TLSConfig; own != nil && len(own.Certificates) > 0 && own.Certificates[0].Leaf != nil {
			s.Set(ends, float64(own.Certificates[0].Leaf.NotAfter.Unix()), "nats_client", name)
		}
		v := 0.0
		if now.connected() {
			v = 1
		}
		s.Set(up, v, name)
		failing := 0.0
		if now.storage() != nil {
			failing = 1
		}
		s.Set(stuck, failing, name)
		s.Set(again, float64(now.generation()), name)
		s.Set(dropped, float64(now.dropped()), name)
	})
	return m
}
