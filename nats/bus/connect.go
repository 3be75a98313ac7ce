package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"

	"ao/shared/clock"
	"ao/shared/fault"

	"github.com/nats-io/nats.go"
)

// Options returns the options of all our connections: they reconnect for ever with short jittered waits, and refuse
// to publish while disconnected instead of buffering.
func Options(name string, log *slog.Logger) []nats.Option {
	return []nats.Option{
		nats.Name(name),
		nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(func(tries int) time.Duration {
			d := min(50*time.Millisecond<<min(tries, 5), time.Second)
			return d/2 + rand.N(d/2)
		}),
		nats.ReconnectBufSize(-1),
		nats.PingInterval(2 * time.Second), // a server that hangs is left after 6 s
		nats.MaxPingsOutstanding(2),
		nats.Timeout(3 * time.Second),
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			if err != nil {
				log.Warn("NATS connection lost, reconnecting", "err", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info("NATS connection restored", "url", RedactURL(nc.ConnectedUrl()))
		}),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			subject := ""
			if s != nil {
				subject = s.Subject
			}
			log.Warn("NATS reported an error", "err", err, "subject", subject)
		}),
	}
}

// Connect connects to a NATS server. It waits for one that is not up yet, and logs how to start one every few
// seconds. It fails when ctx ends, and immediately when the server refuses the login or the certificate.
func Connect(ctx context.Context, address, name string, log *slog.Logger, more ...nats.Option) (*nats.Conn, error) {
	var logged time.Time
	for {
		nc, err := nats.Connect(address, append(Options(name, log), more...)...)
		if err == nil {
			return nc, nil
		}
		if hint := certificateHint(err); hint != "" {
			return nil, fmt.Errorf("NATS at %s: %w; %s", RedactURL(address), described{err}, hint)
		}
		if loginRefused(err) {
			return nil, fmt.Errorf("NATS at %s refuses the login: %w; check AO_NATS_CREDS, and whether the "+
				"server has this user", RedactURL(address), described{err})
		}
		if time.Since(logged) > 5*time.Second {
			log.Warn("waiting for NATS: start one with `nats-server -js`, or `docker compose up nats`, "+
				"or set AO_NATS_URL to another address (\"embed\" runs one in this process)",
				"url", RedactURL(address), "err", described{err})
			logged = time.Now()
		}
		clock.Sleep(ctx, 250*time.Millisecond)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("NATS at %s is not reachable: %w; start one with `nats-server -js`, or set "+
				"AO_NATS_URL", RedactURL(address), described{err})
		}
	}
}

// Describe says in plain words why NATS cannot be used.
func Describe(err error) string {
	for target, text := range map[error]string{
		nats.ErrNoServers: "no NATS server answers there", nats.ErrTimeout: "no answer came in time",
		nats.ErrAuthorization: "the login is refused", nats.ErrAuthExpired: "the login has expired",
		nats.ErrAuthRevoked: "the login was revoked",
	} {
		if errors.Is(err, target) {
			return text
		}
	}
	return strings.TrimPrefix(fault.Describe(err), "nats: ")
}

// described is an error whose text is Describe's.
type described struct{ error }

func (w described) Error() string { return Describe(w.error) }
func (w described) Unwrap() error { return w.error }

// loginRefused reports whether another try cannot succeed.
func loginRefused(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) ||
		errors.Is(err, nats.ErrAuthRevoked) || errors.Is(err, nats.ErrNkeyButNoSigCB)
}

// RedactURL returns an address, or a comma list of them, without user, password or token.
func RedactURL(raw string) string {
	parts := strings.Split(raw, ",")
	for i, p := range parts {
		u, err := url.Parse(strings.TrimSpace(p))
		if err != nil {
			parts[i] = "(an address that cannot be read)"
			continue
		}
		u.User = nil
		parts[i] = u.String()
	}
	return strings.Join(parts, ",")
}
