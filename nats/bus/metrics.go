package bus

import (
	"ao/shared/metric"

	"github.com/nats-io/nats.go"
)

// meter holds the metrics of a bus. Its zero value counts nothing.
type meter struct {
	single, batch   *metric.Histogram // duration of an append
	batchSize       *metric.Histogram // size of a batch
	taken, rejected *metric.Counter
	requests        *metric.Histogram
}

// connStatus is the state of a connection, read at each scrape.
type connStatus struct {
	connected           func() bool
	storage             func() error // nil: NATS writes
	generation, dropped func() uint64
}

// newMeter makes the meter of a connection, labelled with the connection's name.
func newMeter(r *metric.Registry, nc *nats.Conn, now connStatus) (m meter) {
	if r == nil {
		return m
	}
	name := nc.Opts.Name
	appends := r.Histogram("ao_nats_append_seconds", "How long NATS took to store records of the history: one alone, "+
		"or many as a batch. A disk that is slow to sync shows here first.", metric.Fast, "connection", "way")
	m.single, m.batch = appends.With(name, "alone"), appends.With(name, "batch")
	m.batchSize = r.Histogram("ao_nats_batch_records", "How many records a batch of concurrent appends had.",
		metric.Many, "connection").With(name)
	m.taken = r.Counter("ao_nats_appends_refused_total", "Appends that NATS refused because another writer was first. "+
		"This is normal: it is how several processes agree.", "connection").With(name)
	m.rejected = r.Counter("ao_rejected_messages_total", "Messages that were kept in REJECTED with the reason: "+
		"inbox messages that could not be accepted, and queued runs that could not be read.", "connection").With(name)
	m.requests = r.Histogram("ao_nats_request_seconds", "Duration of requests to other processes over NATS: "+
		"heartbeats, registrations, commands, parts of payloads. Unanswered ones count too.",
		metric.Fast, "connection").With(name)
	up := r.Gauge("ao_nats_connected", "1: connected to NATS; 0: not connected, reconnecting.", "connection")
	stuck := r.Gauge("ao_nats_storage_failing", "1: NATS answers but does not write, since its disk is full or has "+
		"failed; 0: no failed write is known.", "connection")
	again := r.Count("ao_nats_reconnects_total", "Reconnects to NATS.", "connection")
	dropped := r.Count("ao_nats_dropped_total", "How often messages were dropped because this process was too slow.",
		"connection")
	ends := r.CertificateExpiry()
	r.AtScrape(func(s *metric.Scrape) {
		if state, err := nc.TLSConnectionState(); err == nil && len(state.PeerCertificates) > 0 {
			s.Set(ends, float64(state.PeerCertificates[0].NotAfter.Unix()), "nats", name)
		}
		if c := nc.Opts.TLSConfig; c != nil && len(c.Certificates) > 0 && c.Certificates[0].Leaf != nil {
			s.Set(ends, float64(c.Certificates[0].Leaf.NotAfter.Unix()), "nats_client", name)
		}
		truth := map[bool]float64{true: 1}
		s.Set(up, truth[now.connected()], name)
		s.Set(stuck, truth[now.storage() != nil], name)
		s.Set(again, float64(now.generation()), name)
		s.Set(dropped, float64(now.dropped()), name)
	})
	return m
}
