package serve

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"ao/coordinator/access"
	"ao/shared/metric"
)

// certificate is the certificate of the HTTP API. nil means plain HTTP.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu       sync.Mutex
	pair     *tls.Certificate
	fileInfo [2]fs.FileInfo // as they were read last
	looked   time.Time
}

// checkInterval is how often the files are checked while clients connect.
const checkInterval = time.Second

// certificateOf reads both files; nil: none are configured.
func certificateOf(certFile, keyFile string, log *slog.Logger) (*certificate, error) {
	switch {
	case certFile == "" && keyFile == "":
		return nil, nil
	case keyFile == "":
		return nil, errors.New("AO_TLS_CERT is set and AO_TLS_KEY is not: name the certificate's private key too, or " +
			"neither")
	case certFile == "":
		return nil, errors.New("AO_TLS_KEY is set and AO_TLS_CERT is not: name the key's certificate too, or neither")
	}
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log}
	if err := c.read(c.stat()); err != nil {
		return nil, err
	}
	return c, nil
}

// stat returns the state of the files.
func (c *certificate) stat() (now [2]fs.FileInfo) {
	for i, file := range []string{c.certFile, c.keyFile} {
		now[i], _ = os.Stat(file) // a missing file is reported when it is read
	}
	return now
}

// read reads the files, which had the given state just before. The caller holds mu or is alone.
func (c *certificate) read(seen [2]fs.FileInfo) error {
	c.fileInfo, c.looked = seen, time.Now()
	cert, err := os.ReadFile(c.certFile)
	if err != nil {
		return fmt.Errorf("AO_TLS_CERT %q cannot be read: %w", c.certFile, err)
	}
	key, err := os.ReadFile(c.keyFile)
	if err != nil {
		return fmt.Errorf("AO_TLS_KEY %q cannot be read: %w", c.keyFile, err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("AO_TLS_CERT %q and AO_TLS_KEY %q are no certificate and its private key (PEM): %w",
			c.certFile, c.keyFile, err)
	}
	if leaf := pair.Leaf; leaf != nil && time.Now().After(leaf.NotAfter) {
		c.log.Warn("the certificate of the HTTP API has expired, so clients will refuse it (AO_TLS_CERT)", "file",
			c.certFile, "ended", leaf.NotAfter)
	}
	c.pair = &pair
	return nil
}

// current returns the certificate of the files as they are now, or the previous one while they cannot be used.
func (c *certificate) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < checkInterval {
		return c.pair, nil
	}
	c.looked = time.Now()
	now := c.stat()
	if access.SameFile(now[0], c.fileInfo[0]) && access.SameFile(now[1], c.fileInfo[1]) {
		return c.pair, nil
	}
	if err := c.read(now); err != nil { // perhaps only one of them is new yet
		c.log.Error("certificate of the HTTP API not reloaded; the previous one stays in use", "err", err)
	} else {
		c.log.Info("certificate of the HTTP API reloaded", "file", c.certFile)
	}
	return c.pair, nil
}

// config returns the TLS configuration and the URL scheme. It stays with HTTP/1, so deadlines and connection limits
// keep their meaning.
func (c *certificate) config() (t *tls.Config, scheme string) {
	if c == nil {
		return nil, "http"
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.current, NextProtos: []string{"http/1.1"}},
		"https"
}

// onHangup calls f at each SIGHUP until stop is called. Without f, the signal ends the process.
func onHangup(f func()) (stop func()) {
	got, over := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(got, syscall.SIGHUP)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-got:
				f()
			case <-over:
				return
			}
		}
	})
	return func() {
		signal.Stop(got)
		close(over)
		wg.Wait()
	}
}

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
