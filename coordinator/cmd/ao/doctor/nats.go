package doctor

import (
	"context"
	"errors"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"ao/coordinator/health"
	"ao/nats/bus"
	"ao/nats/users"

	"github.com/nats-io/nats.go"
)

// checkNATS connects to a NATS server with this login. It checks the server's version, whether the server accepts
// clients without a login, and whether the credential has more permissions than its role needs.
func checkNATS(ctx context.Context, address string, login bus.Login) (all results) {
	opts, err := login.Options()
	if err != nil {
		return results{health.Failed("nats", "fix the credential or its files", "%v", err)}
	}
	d := &denials{}
	nc, err := d.connect(address, opts...)
	if err != nil {
		return results{health.Failed("nats", "start NATS, or correct AO_NATS_URL, AO_NATS_CREDS and AO_NATS_CA",
			"NATS at %s: %s", redacted(address), bus.Describe(err))}
	}
	defer nc.Close()
	all = append(all, health.NATS(nc.ConnectedServerVersion()))
	if login.Creds != "" {
		all = append(all, d.checkPermissions(ctx, nc, login.Creds)...)
	}
	var tls []nats.Option
	if withoutLogin, err := (bus.Login{CA: login.CA, Cert: login.Cert, Key: login.Key}).Options(); err == nil {
		tls = withoutLogin
	}
	anonymous, err := new(denials).connect(address, tls...)
	if err != nil {
		return append(all, health.Passed("nats-users", "NATS at %s refuses clients without a login", redacted(address)))
	}
	anonymous.Close()
	return append(all, anonymousAccess(address))
}

// anonymousAccess reports a NATS server that accepts clients without a login.
func anonymousAccess(address string) health.Result {
	for one := range strings.SplitSeq(address, ",") {
		if !local(hostOf(strings.TrimSpace(one))) {
			return health.Failed("nats-users",
				"create users with 'ao init' and include nats/users.conf in the server's configuration",
				"NATS at %s gives full access to everyone who can reach it, without a login", redacted(address))
		}
	}
	return health.Passed("nats-users", "NATS at %s requires no login; make sure that only this machine can reach it",
		redacted(address))
}

// denials counts the permission violations of a connection.
type denials struct {
	mu sync.Mutex
	n  int
}

func (d *denials) connect(address string, more ...nats.Option) (*nats.Conn, error) {
	return nats.Connect(address, append([]nats.Option{
		nats.Name("ao-doctor"), nats.Timeout(checkTimeout / 2), nats.MaxReconnects(0), nats.NoReconnect(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrPermissionViolation) {
				d.mu.Lock()
				d.n++
				d.mu.Unlock()
			}
		}),
	}, more...)...)
}

// refused reports whether the server refuses what do does with the connection. The refusal arrives before the reply
// to a ping.
func (d *denials) refused(nc *nats.Conn, do func() error) bool {
	d.mu.Lock()
	before := d.n
	d.mu.Unlock()
	if do() != nil || nc.FlushTimeout(checkTimeout/2) != nil {
		return true
	}
	for range 100 { // the error handler runs concurrently
		d.mu.Lock()
		n := d.n
		d.mu.Unlock()
		if n > before {
			return true
		}
		time.Sleep(2 * time.Millisecond)
	}
	return false
}

// checkPermissions tries operations that no worker and no publisher needs. None of them changes anything, even if
// allowed.
func (d *denials) checkPermissions(ctx context.Context, nc *nats.Conn, creds string) results {
	text, err := os.ReadFile(creds)
	if err != nil {
		return nil // already reported by the connection
	}
	user, err := users.Read("", text)
	if err != nil || user.Role == "" {
		return results{health.Skipped("rights", "use the files that 'ao init' creates",
			"permissions of %s: the file does not name its role", creds)}
	}
	if user.Role == users.Coordinator {
		return results{health.Passed("rights",
			"%s belongs to a coordinator and has full access; keep it away from workers", creds)}
	}
	var excess []string
	for _, subject := range []string{">", "_INBOX.>", "ao.>", "$JS.>"} {
		subscribe := func() error {
			sub, err := nc.SubscribeSync(subject)
			if err == nil {
				defer func() { _ = sub.Unsubscribe() }()
				err = nc.FlushTimeout(checkTimeout / 2)
			}
			return err
		}
		if !d.refused(nc, subscribe) {
			excess = append(excess, "subscribe to "+subject)
		}
	}
	for _, subject := range []string{"$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.INFO.KV_secrets",
		"$SYS.REQ.SERVER.PING"} {
		if ctx.Err() != nil {
			break
		}
		if !d.refused(nc, func() error { return nc.Publish(subject, nil) }) {
			excess = append(excess, "request "+subject)
		}
	}
	if len(excess) > 0 {
		return results{health.Failed("rights",
			"create users with 'ao init' and have the server use its nats/users.conf",
			"%s belongs to a %s but has permissions it must not have: %s", creds, user.Role,
			strings.Join(excess, ", "))}
	}
	return results{health.Passed("rights", "%s belongs to a %s and has no permissions that a %s does not need",
		creds, user.Role, user.Role)}
}

// redacted removes user and password from addresses.
func redacted(address string) string {
	all := strings.Split(address, ",")
	for i, one := range all {
		if u, err := url.Parse(strings.TrimSpace(one)); err == nil {
			u.User = nil
			all[i] = u.String()
		}
	}
	return strings.Join(all, ",")
}
