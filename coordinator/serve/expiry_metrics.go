package serve

import (
	"ao/coordinator/access"
	"ao/shared/metric"
)

// registerExpiryMetrics reports when the HTTP certificate and the next long-lived API token expire. Either may be nil.
func registerExpiryMetrics(r *metric.Registry, shown *certificate, tokens *access.Tokens) {
	certificates := r.CertificateExpiry()
	token := r.Gauge("ao_token_expiry_timestamp_seconds", "When the next API token expires, as Unix time. Tokens "+
		"made for less than 30 days do not count.")
	r.AtScrape(func(s *metric.Scrape) {
		if shown != nil {
			if pair, _ := shown.current(nil); pair.Leaf != nil {
				s.Set(certificates, float64(pair.Leaf.NotAfter.Unix()), "http", "")
			}
		}
		if tokens != nil {
			if end := tokens.NextExpiry(); !end.IsZero() {
				s.Set(token, float64(end.Unix()))
			}
		}
	})
}
