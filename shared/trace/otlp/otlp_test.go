package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ao/shared/trace"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// set sets variables, and unsets all others of OpenTelemetry that the tester may have.
func set(t *testing.T, env map[string]string) {
	t.Helper()
	for _, name := range []string{
		"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG",
		"OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES",
		"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL",
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
		"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_TIMEOUT",
		"OTEL_EXPORTER_OTLP_COMPRESSION",
	} {
		t.Setenv(name, env[name])
	}
}

// collector keeps what is sent to it.
type collector struct {
	*httptest.Server
	mu     sync.Mutex
	header http.Header
	path   string
	spans  map[string]string // name → service
	answer func(http.ResponseWriter)
}

func collect(t *testing.T) *collector {
	t.Helper()
	c := &collector{spans: map[string]string{}, answer: func(http.ResponseWriter) {}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(bytes.NewReader(raw))
			if err != nil {
				t.Error(err)
				return
			}
			raw, _ = io.ReadAll(z)
		}
		var m tracepb.TracesData
		if err := proto.Unmarshal(raw, &m); err != nil {
			t.Errorf("not what a collector can read: %v", err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.header, c.path = r.Header, r.URL.Path
		for _, rs := range m.ResourceSpans {
			service := ""
			for _, a := range rs.Resource.Attributes {
				if a.Key == "service.name" {
					service = a.Value.GetStringValue()
				}
			}
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					c.spans[s.Name] = service
				}
			}
		}
		c.answer(w)
	}))
	t.Cleanup(c.Close)
	return c
}

func TestOpen(t *testing.T) {
	c := collect(t)
	for _, tt := range []struct {
		name          string
		env           map[string]string
		path, service string // where it is sent, as whose; empty: nothing is
		header        string
		wrong         string
	}{
		{"nothing is set", nil, "", "", "", ""},
		{"an endpoint", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL}, "/v1/traces", "ao-test", "", ""},
		{"with a path", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL + "/otlp/"}, "/otlp/v1/traces",
			"ao-test", "", ""},
		{"of traces", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1",
			"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": c.URL + "/here", "OTEL_SERVICE_NAME": "mine"}, "/here", "mine", "",
			""},
		{"compressed, with headers", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL,
			"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip", "OTEL_EXPORTER_OTLP_HEADERS": "X-Key=a%2Cb, other=1"},
			"/v1/traces", "ao-test", "a,b", ""},
		{"switched off", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_SDK_DISABLED": "true"}, "", "",
			"", ""},
		{"no exporter", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_TRACES_EXPORTER": "none"}, "", "",
			"", ""},
		{"sampled never", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_TRACES_SAMPLER": "always_off"},
			"", "", "", ""},
		{"another exporter", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_TRACES_EXPORTER": "zipkin"},
			"", "", "", "OTEL_TRACES_EXPORTER"},
		{"gRPC", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "", "",
			"", `OTEL_EXPORTER_OTLP_PROTOCOL "grpc"`},
		{"no URL", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "127.0.0.1:4318"}, "", "", "",
			"OTEL_EXPORTER_OTLP_ENDPOINT"},
		{"no sampler", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_TRACES_SAMPLER": "some"}, "", "",
			"", "OTEL_TRACES_SAMPLER"},
		{"no ratio", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_TRACES_SAMPLER": "traceidratio",
			"OTEL_TRACES_SAMPLER_ARG": "7"}, "", "", "", "OTEL_TRACES_SAMPLER_ARG"},
		{"no headers", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_EXPORTER_OTLP_HEADERS": "secret"},
			"", "", "", "OTEL_EXPORTER_OTLP_HEADERS"},
		{"no time", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_EXPORTER_OTLP_TIMEOUT": "10s"}, "",
			"", "", "OTEL_EXPORTER_OTLP_TIMEOUT"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set(t, tt.env)
			c.mu.Lock()
			clear(c.spans)
			c.path = ""
			c.mu.Unlock()
			tracer, end, err := Open("ao-test", slog.New(slog.DiscardHandler))
			if (err != nil) != (tt.wrong != "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
				t.Fatalf("got the error %v, want one of %q", err, tt.wrong)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error shows a secret: %v", err)
			}
			_, span := tracer.Start(t.Context(), trace.Server, "one")
			span.End()
			end()
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.path != tt.path || c.spans["one"] != tt.service || tt.header != "" &&
				c.header.Get("X-Key") != tt.header {
				t.Errorf("sent to %q: %v with %v", c.path, c.spans, c.header)
			}
		})
	}
}

// TestACollectorThatIsAway costs neither the runs' time nor more than a line a minute, and the end is not held up.
func TestACollectorThatIsAway(t *testing.T) {
	set(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
	t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "1")
	var log lines
	tracer, end, err := Open("ao-test", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for range 5000 { // more than are kept
		_, span := tracer.Start(t.Context(), trace.Server, "one")
		span.End()
	}
	began := time.Now()
	end()
	end()
	if took := time.Since(began); took > shutdownTimeout+5*time.Second {
		t.Errorf("the end took %v", took)
	}
	if n := log.count("spans not sent"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, log.b.String())
	}
}

// lines is a log that may be written to at any time.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), what)
}

// TestFailuresAreLoggedOnceAMinute, with what was lost since.
func TestFailuresAreLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		q := &loggingClient{log: slog.New(slog.NewTextHandler(&log, nil))}
		for range 150 {
			q.lost++
			q.logError(io.ErrUnexpectedEOF)
			time.Sleep(time.Second)
		}
		q.logLost()
		if n := log.count("spans not sent"); n != 3 || log.count("spans=60") != 2 || log.count("spans=29") != 1 {
			t.Errorf("logged %d times:\n%s", n, log.b.String())
		}
	})
}

// TestCollectorResponses: what may be sent again is, what may not is lost, what is accepted in part is logged.
func TestCollectorResponses(t *testing.T) {
	part := protowire.AppendTag(nil, 1, protowire.VarintType)
	part = protowire.AppendVarint(part, 7)
	part = protowire.AppendString(protowire.AppendTag(part, 2, protowire.BytesType), "full")
	part = protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), part)
	for _, tt := range []struct {
		name   string
		answer func(n int32, w http.ResponseWriter)
		asked  int32
		want   string
	}{
		{"taken", func(int32, http.ResponseWriter) {}, 1, ""},
		{"busy, then taken", func(n int32, w http.ResponseWriter) {
			if n == 1 {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(503)
			}
		}, 2, ""},
		{"refused", func(_ int32, w http.ResponseWriter) { w.WriteHeader(400) }, 1, "400"},
		{"a redirect is no place to send a key to", func(_ int32, w http.ResponseWriter) {
			w.Header().Set("Location", "/x")
			w.WriteHeader(307)
		}, 1, "307"},
		{"in part", func(_ int32, w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/x-protobuf")
			w.Write(part)
		}, 1, `rejected 7 spans: "full"`},
		{"nonsense", func(_ int32, w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/x-protobuf")
			w.Write([]byte{0xff, 0xff})
		}, 1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := collect(t)
			var asked atomic.Int32
			c.answer = func(w http.ResponseWriter) { tt.answer(asked.Add(1), w) }
			set(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL})
			cl, err := newClient()
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			err = cl.UploadTraces(ctx, nil)
			if asked.Load() != tt.asked || (err == nil) != (tt.want == "") || err != nil &&
				!strings.Contains(err.Error(), tt.want) {
				t.Errorf("asked %d times, then %v; want %d and %q", asked.Load(), err, tt.asked, tt.want)
			}
			cl.Stop(ctx)
		})
	}
}
