// Package otlp sends spans to an OpenTelemetry collector, configured by the standard OTEL_* variables. It has
// its own client, since that of OpenTelemetry's Go SDK links gRPC, which is not used, into every program.
package otlp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ao/shared/trace"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// shutdownTimeout is how long the end of a program waits for its last spans.
const shutdownTimeout = 5 * time.Second

// Open returns the Tracer for the environment, and the function that flushes and stops it within 5 s. The
// Tracer is nil if no endpoint is set or tracing is switched off. service is the service's name unless
// OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES set one. The error names the variable that is wrong.
//
// SDK and resource read OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER,
// OTEL_TRACES_SAMPLER_ARG, OTEL_BSP_* and OTEL_SPAN_*_LIMIT themselves.
func Open(service string, log *slog.Logger) (*trace.Tracer, func(), error) {
	nothing := func() {}
	wanted, err := enabled()
	if err != nil || !wanted {
		return nil, nothing, err
	}
	c, err := newClient()
	if err != nil {
		return nil, nothing, err
	}
	if err := sampler(); err != nil {
		return nil, nothing, err
	}
	res, err := resource.New(context.Background(), resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", service)), resource.WithFromEnv())
	if err != nil {
		return nil, nothing, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w; write it as key=value,key=value", err)
	}
	quiet := &loggingClient{client: c, log: cmp.Or(log, slog.Default())}
	exporter, err := otlptrace.New(context.Background(), quiet)
	if err != nil {
		return nil, nothing, err
	}
	p := sdk.NewTracerProvider(sdk.WithResource(res), sdk.WithBatcher(exporter))
	end := sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
		defer cancel()
		if err := p.Shutdown(ctx); err != nil {
			quiet.logError(err)
		}
		quiet.logLost()
	})
	quiet.log.Info("spans are sent", "endpoint", c.endpoint.Redacted())
	return trace.New(p), end, nil
}

// enabled reports whether spans are to be sent.
func enabled() (bool, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || setting("ENDPOINT") == "" {
		return false, nil
	}
	switch e := os.Getenv("OTEL_TRACES_EXPORTER"); e {
	case "none":
		return false, nil
	case "", "otlp":
	default:
		return false, fmt.Errorf(`OTEL_TRACES_EXPORTER %q: use "otlp" or "none"`, e)
	}
	if p := setting("PROTOCOL"); p != "" && p != "http/protobuf" {
		return false, fmt.Errorf("%s %q: only http/protobuf is supported; set it to that, and the endpoint to the "+
			"collector's HTTP port, for example http://127.0.0.1:4318", variable("PROTOCOL"), p)
	}
	return true, nil
}

// setting returns the value of an exporter's variable: for traces, else for all signals.
func setting(name string) string { return os.Getenv(variable(name)) }

func variable(name string) string {
	if own := "OTEL_EXPORTER_OTLP_TRACES_" + name; os.Getenv(own) != "" {
		return own
	}
	return "OTEL_EXPORTER_OTLP_" + name
}

var samplers = []string{"always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off",
	"parentbased_traceidratio"}

// sampler checks what the SDK would only warn about.
func sampler() error {
	name, arg := os.Getenv("OTEL_TRACES_SAMPLER"), os.Getenv("OTEL_TRACES_SAMPLER_ARG")
	if name != "" && !slices.Contains(samplers, name) {
		return fmt.Errorf("OTEL_TRACES_SAMPLER %q: known are %s", name, strings.Join(samplers, ", "))
	}
	if f, err := strconv.ParseFloat(arg, 64); arg != "" && strings.HasSuffix(name, "traceidratio") &&
		(err != nil || f < 0 || f > 1) {
		return fmt.Errorf("OTEL_TRACES_SAMPLER_ARG %q: use a part of 1, for example 0.1", arg)
	}
	return nil
}

// logInterval is how often errors of the collector are logged.
const logInterval = time.Minute

// loggingClient is a client whose errors are only logged, and not too often.
type loggingClient struct {
	*client
	log *slog.Logger

	mu         sync.Mutex
	lastLogged time.Time // the last complaint
	lost       int       // spans since then
}

// UploadTraces sends spans; those that cannot be sent are lost.
func (q *loggingClient) UploadTraces(ctx context.Context, all []*tracepb.ResourceSpans) error {
	err := q.client.UploadTraces(ctx, all)
	if err == nil {
		return nil
	}
	n := 0
	for _, r := range all {
		for _, s := range r.ScopeSpans {
			n += len(s.Spans)
		}
	}
	if part, ok := errors.AsType[rejected](err); ok {
		n = part.spans
	}
	q.mu.Lock()
	q.lost += n
	q.mu.Unlock()
	q.logError(err)
	return nil
}

// logError logs an error, at most once a minute.
func (q *loggingClient) logError(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now := time.Now(); q.lastLogged.IsZero() || now.Sub(q.lastLogged) >= logInterval {
		q.log.Warn("spans not sent; runs are not affected", "spans", q.lost, "err", err)
		q.lastLogged, q.lost = now, 0
	}
}

// logLost logs at the end how many spans were lost since the last message.
func (q *loggingClient) logLost() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lost > 0 {
		q.log.Warn("spans were not sent", "spans", q.lost)
		q.lost = 0
	}
}
