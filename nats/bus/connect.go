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

	"ao/shared/fault"

	"github.com/nats-io/nats.go"
)

// Options are the options that every connection of ours has: it reconnects for ever with small jittered waits,
// and while it is away it refuses to publish instead of keeping what nobody may ever send.
func Options(name string, log *slog.Logger) []nats.Option {
	return []nats.Option{
		nats.Name(name),
		nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(func(tries int) time.Duration {
			d := min(50*time.Millisecond<<min(tries, 5), time.Second)
			return d/2 + rand.N(d/2)
		}),
		nats.ReconnectBufSize(-1),
		nats.PingInterval(2 * time.Second), // a server that hangs is left after three of them
		nats.MaxPingsOutstanding(2),
		nats.Timeout(3 * time.Second),
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			if err != nil {
				log.Warn("NATS is away, reconnecting", "err", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) { log.Info("NATS is back", "url", RedactURL(nc.ConnectedUrl())) }),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			subject := ""
			if s != nil {
				subject = s.Subject
			}
			log.Warn("NATS connection", "err", err, "subject", subject)
		}),
	}
}

// Connect connects to a NATS server and waits for one that isn't there yet, saying every few seconds in the log
// how to start one. It gives up when ctx ends, or at once when the server refuses us.
func Connect(ctx context.Context, address, name string, log *slog.Logger, more ...nats.Option) (*nats.Conn, error) {
	var said time.Time
	for {
		nc, err := nats.Connect(address, append(Options(name, log), more...)...)
		if err == nil {
			return nc, nil
		}
		if what := distrust(err); what != "" {
			return nil, fmt.Errorf("NATS at %s: %w; %s", RedactURL(address), worded{err}, what)
		}
		if refused(err) {
			return nil, fmt.Errorf("NATS at %s refuses us: %w; see AO_NATS_CREDS, and whether the server has this user", RedactURL(address), worded{err})
		}
		if time.Since(said) > 5*time.Second {
			log.Warn("waiting for NATS: start one with `nats-server -js`, or `docker compose up nats`, or set AO_NATS_URL to another address (\"embed\" runs one in this process)",
				"url", RedactURL(address), "err", worded{err})
			said = time.Now()
		}
		rest(ctx, 250*time.Millisecond)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("NATS at %s is not reachable: %w; start one with `nats-server -js`, or set AO_NATS_URL", RedactURL(address), worded{err})
		}
	}
}

// Describe is why NATS cannot be used, in words for a person.
func Describe(err error) string {
	for is, said := range map[error]string{
		nats.ErrNoServers: "no NATS server answers there", nats.ErrTimeout: "no answer came in time",
		nats.ErrAuthorization: "the login is refused", nats.ErrAuthExpired: "the login has expired", nats.ErrAuthRevoked: "the login was revoked",
	} {
		if errors.Is(err, is) {
			return said
		}
	}
	return strings.TrimPrefix(fault.Describe(err), "nats: ")
}

// worded is an error with the text for people.
type worded struct{ error }

func (w worded) Error() string { return Describe(w.error) }
func (w worded) Unwrap() error { return w.error }

// refused says that trying again would not help.
func refused(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) ||
		errors.Is(err, nats.ErrAuthRevoked) || errors.Is(err, nats.ErrNkeyButNoSigCB)
}

// RedactURL is an address, or a comma list of them, as people may see it: without user, password or token.
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
