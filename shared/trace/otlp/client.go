package otlp

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// client posts spans as OTLP/HTTP with protobuf.
type client struct {
	endpoint *url.URL
	header   http.Header
	timeout  time.Duration // of one request
	gzip     bool
	http     *http.Client
}

// newClient returns the client for the variables OTEL_EXPORTER_OTLP_*.
func newClient() (*client, error) {
	c := &client{header: http.Header{"Content-Type": {"application/x-protobuf"}, "User-Agent": {"agent-orchestrator"}},
		timeout: 10 * time.Second}
	u, err := url.Parse(setting("ENDPOINT"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%s %q: give a URL, for example http://127.0.0.1:4318", variable("ENDPOINT"),
			setting("ENDPOINT"))
	}
	c.endpoint = u
	if variable("ENDPOINT") == "OTEL_EXPORTER_OTLP_ENDPOINT" { // the base for all signals
		c.endpoint = u.JoinPath("v1/traces")
	}
	for pair := range strings.SplitSeq(setting("HEADERS"), ",") {
		pair = strings.TrimSpace(pair)
		if pair == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		name = strings.TrimSpace(name)
		if !ok || err != nil || name == "" { // the value may be a secret
			return nil, fmt.Errorf("%s: write it as name=value,name=value, with %% and commas as %%25 and %%2C",
				variable("HEADERS"))
		}
		c.header.Set(name, value)
	}
	if v := setting("TIMEOUT"); v != "" {
		ms, err := strconv.Atoi(v)
		if err != nil || ms <= 0 {
			return nil, fmt.Errorf("%s %q: give milliseconds, for example 10000", variable("TIMEOUT"), v)
		}
		c.timeout = time.Duration(ms) * time.Millisecond
	}
	switch v := setting("COMPRESSION"); v {
	case "", "none":
	case "gzip":
		c.gzip = true
		c.header.Set("Content-Encoding", "gzip")
	default:
		return nil, fmt.Errorf("%s %q: use gzip or none", variable("COMPRESSION"), v)
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig, err = tlsConfig()
	c.http = &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	return c, err
}

func tlsConfig() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := setting("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", variable("CERTIFICATE"), err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: %s has no certificate in PEM", variable("CERTIFICATE"), file)
		}
	}
	if cert, key := setting("CLIENT_CERTIFICATE"), setting("CLIENT_KEY"); cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", variable("CLIENT_CERTIFICATE"), variable("CLIENT_KEY"), err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// Start does nothing: connections are made when they are needed.
func (c *client) Start(context.Context) error { return nil }

// Stop closes the connections.
func (c *client) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces sends spans, with retries while the collector is busy, until ctx ends.
func (c *client) UploadTraces(ctx context.Context, all []*tracepb.ResourceSpans) error {
	// This message and the service's request are equal on the wire; the request's package would link gRPC.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: all})
	if err != nil {
		return err
	}
	if c.gzip {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write(body); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		body = b.Bytes()
	}
	for pause := time.Second; ; pause = min(2*pause, 10*time.Second) {
		wait, err := c.post(ctx, body)
		if wait == 0 || err == nil {
			return err
		}
		timer := time.NewTimer(max(wait, pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// post sends one request. wait is the least time before a retry; 0: no retry.
func (c *client) post(ctx context.Context, body []byte) (wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint.String(), bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header = c.header.Clone()
	res, err := c.http.Do(req)
	if err != nil {
		if own, ok := errors.AsType[*url.Error](err); ok { // without the URL, which may contain a password
			err = own.Err
		}
		return time.Second, fmt.Errorf("the collector does not answer: %w", err)
	}
	defer res.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	switch {
	case res.StatusCode >= 200 && res.StatusCode < 300:
		return 0, partialSuccess(res.Header, said)
	case res.StatusCode == 429, res.StatusCode == 502, res.StatusCode == 503, res.StatusCode == 504:
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		wait = time.Duration(cmp.Or(max(seconds, 0), 1)) * time.Second
	}
	return wait, fmt.Errorf("the collector answers %s", res.Status)
}

// rejected is a collector's reply that it did not accept all spans.
type rejected struct {
	spans int
	why   string
}

func (r rejected) Error() string {
	return fmt.Sprintf("the collector rejected %d spans: %.200q", r.spans, r.why)
}

// partialSuccess reads the rejected spans and warnings in a reply: ExportTraceServiceResponse has one member,
// partial_success (1), with rejected_spans (1) and error_message (2).
func partialSuccess(h http.Header, said []byte) error {
	if len(said) == 0 || !strings.HasPrefix(h.Get("Content-Type"), "application/x-protobuf") {
		return nil
	}
	var no rejected
	members(said, func(n protowire.Number, _ uint64, inner []byte) {
		if n != 1 {
			return
		}
		members(inner, func(n protowire.Number, v uint64, text []byte) {
			switch n {
			case 1:
				no.spans = int(v)
			case 2:
				no.why = string(text)
			}
		})
	})
	if no == (rejected{}) {
		return nil
	}
	return no
}

// members iterates over a message's numbers and bytes, as far as it can be read.
func members(raw []byte, each func(n protowire.Number, v uint64, b []byte)) {
	for len(raw) > 0 {
		n, kind, size := protowire.ConsumeTag(raw)
		if size < 0 {
			return
		}
		raw = raw[size:]
		var v uint64
		var b []byte
		switch kind {
		case protowire.VarintType:
			v, size = protowire.ConsumeVarint(raw)
		case protowire.BytesType:
			b, size = protowire.ConsumeBytes(raw)
		default:
			size = protowire.ConsumeFieldValue(n, kind, raw)
		}
		if size < 0 {
			return
		}
		each(n, v, b)
		raw = raw[size:]
	}
}
