// Package otlp sends spans to an OpenTelemetry collector, as the standard OTEL_* variables say. Its client is its own:
// the one of OpenTelemetry's Go SDK links gRPC, which it never speaks, into every program (decision 0020).
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

// last is how long the end of a program waits for its last spans.
const last = 5 * time.Second

// Open gives the Tracer that the environment asks for, with the function that sends what is left and ends it, which
// takes 5 s at most. Where no endpoint is set, or tracing is switched off, the Tracer is nil. service is the service's
// name unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES have one. The error names the variable that is wrong.
//
// What SDK and resource read themselves: OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER,
// OTEL_TRACES_SAMPLER_ARG, OTEL_BSP_*, OTEL_SPAN_*_LIMIT.
func Open(service string, log *slog.Logger) (*trace.Tracer, func(), error) {
	nothing := func() {}
	wanted, err := wants()
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
	quiet := &quiet{client: c, log: cmp.Or(log, slog.Default())}
	exporter, err := otlptrace.New(context.Background(), quiet)
	if err != nil {
		return nil, nothing, err
	}
	p := sdk.NewTracerProvider(sdk.WithResource(res), sdk.WithBatcher(exporter))
	end := sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), last)
		defer cancel()
		if err := p.Shutdown(ctx); err != nil {
			quiet.complain(err)
		}
		quiet.sum()
	})
	quiet.log.Info("spans are sent", "endpoint", c.endpoint.Redacted())
	return trace.New(p), end, nil
}

// wants tells whether spans are to be sent.
func wants() (bool, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || setting("ENDPOINT") == "" {
		return false, nil
	}
	switch e := os.Getenv("OTEL_TRACES_EXPORTER"); e {
	case "none":
		return false, nil
	case "", "otlp":
	default:
		return false, fmt.Errorf(`OTEL_TRACES_EXPORTER %q: spans can be sent by "otlp" only; "none" sends none`, e)
	}
	if p := setting("PROTOCOL"); p != "" && p != "http/protobuf" {
		return false, fmt.Errorf("%s %q: only http/protobuf is spoken; set it to that, and the endpoint to the "+
			"collector's HTTP port, for example http://127.0.0.1:4318", named("PROTOCOL"), p)
	}
	return true, nil
}

// setting is a variable of the exporter: what it is for traces, else for all signals.
func setting(name string) string { return os.Getenv(named(name)) }

// named is the variable that counts.
func named(name string) string {
	if own := "OTEL_EXPORTER_OTLP_TRACES_" + name; os.Getenv(own) != "" {
		return own
	}
	return "OTEL_EXPORTER_OTLP_" + name
}

var samplers = []string{"always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off",
	"parentbased_traceidratio"}

// sampler checks what the SDK would only complain of.
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

// complaints is how often trouble with the collector is told.
const complaints = time.Minute

// quiet is a client whose trouble is logged now and then and nobody's concern beside.
type quiet struct {
	*client
	log *slog.Logger

	mu   sync.Mutex
	told time.Time // the last complaint
	lost int       // spans since then
}

// UploadTraces sends spans; those that cannot be sent are lost.
func (q *quiet) UploadTraces(ctx context.Context, all []*tracepb.ResourceSpans) error {
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
	q.complain(err)
	return nil
}

// complain logs trouble, at most once a minute.
func (q *quiet) complain(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now := time.Now(); q.told.IsZero() || now.Sub(q.told) >= complaints {
		q.log.Warn("spans not sent; the runs go on", "spans", q.lost, "err", err)
		q.told, q.lost = now, 0
	}
}

// sum says at the end what was lost without a word.
func (q *quiet) sum() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lost > 0 {
		q.log.Warn("spans were not sent", "spans", q.lost)
		q.lost = 0
	}
}
