package doctor

import (
	"context"
	"errors"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"ao/coordinator/checkup"
	"ao/nats/bus"
	"ao/nats/users"

	"github.com/nats-io/nats.go"
)

// checkNATS looks at a server as who logs in there: its version, whether it lets in everybody, and whether the credential may do more than
// its role needs.
func checkNATS(ctx context.Context, address string, login bus.Login) (all []checkup.Finding) {
	opts, err := login.Options()
	if err != nil {
		return []checkup.Finding{checkup.Bad("nats", "mend it", "%v", err)}
	}
	d := &denials{}
	nc, err := d.connect(address, opts...)
	if err != nil {
		return []checkup.Finding{checkup.Bad("nats", "is it started, and are AO_NATS_URL, AO_NATS_CREDS and AO_NATS_CA right?", "NATS at %s: %s", redacted(address), bus.Describe(err))}
	}
	defer nc.Close()
	all = append(all, checkup.NATS(nc.ConnectedServerVersion()))
	if login.Creds != "" {
		all = append(all, d.checkPermissions(ctx, nc, login.Creds)...)
	}
	var tls []nats.Option
	if withoutLogin, err := (bus.Login{CA: login.CA, Cert: login.Cert, Key: login.Key}).Options(); err == nil {
		tls = withoutLogin
	}
	anonymous, err := new(denials).connect(address, tls...)
	if err != nil {
		return append(all, checkup.Good("nats-users", "NATS at %s lets in nobody without a login", redacted(address)))
	}
	anonymous.Close()
	return append(all, anonymousAccess(address))
}

// anonymousAccess judges a NATS that lets in everybody who reaches these addresses.
func anonymousAccess(address string) checkup.Finding {
	for one := range strings.SplitSeq(address, ",") {
		if !local(hostOf(strings.TrimSpace(one))) {
			return checkup.Bad("nats-users", "make users with 'ao init', and include nats/users.conf in the server's configuration", "NATS at %s lets in everybody who reaches it, and they may do everything", redacted(address))
		}
	}
	return checkup.Good("nats-users", "NATS at %s asks nobody who they are; see that only this machine reaches it", redacted(address))
}

// denials counts what a server refuses a connection.
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

// refused tells whether the server refuses something, which is done with the connection. The refusal comes before the answer to a ping.
func (d *denials) refused(nc *nats.Conn, do func() error) bool {
	d.mu.Lock()
	before := d.n
	d.mu.Unlock()
	if do() != nil || nc.FlushTimeout(checkTimeout/2) != nil {
		return true
	}
	for range 100 { // the handler runs beside
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

// checkPermissions tries what no worker and no publisher needs. Nothing of it would change anything, also where it is allowed.
func (d *denials) checkPermissions(ctx context.Context, nc *nats.Conn, creds string) []checkup.Finding {
	text, err := os.ReadFile(creds)
	if err != nil {
		return nil // told with the connection
	}
	user, err := users.Read("", text)
	if err != nil || user.Role == "" {
		return []checkup.Finding{checkup.Not("rights", "use the files that 'ao init' makes", "what %s may do: the file does not say whose it is", creds)}
	}
	if user.Role == users.Coordinator {
		return []checkup.Finding{checkup.Good("rights", "%s is a coordinator's: it may do everything; keep it from workers", creds)}
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
			excess = append(excess, "listen to "+subject)
		}
	}
	for _, subject := range []string{"$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.INFO.KV_secrets", "$SYS.REQ.SERVER.PING"} {
		if ctx.Err() != nil {
			break
		}
		if !d.refused(nc, func() error { return nc.Publish(subject, nil) }) {
			excess = append(excess, "ask "+subject)
		}
	}
	if len(excess) > 0 {
		return []checkup.Finding{checkup.Bad("rights", "make users with 'ao init', and have the server use its nats/users.conf", "%s is a %s's, and may do what it must not: %s", creds, user.Role, strings.Join(excess, ", "))}
	}
	return []checkup.Finding{checkup.Good("rights", "%s is a %s's, and is refused what no %s needs", creds, user.Role, user.Role)}
}

// redacted hides what addresses say of user and password.
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
