package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"ao/shared/fault"
	"ao/shared/trace"
)

const (
	maxDrain     = 4 << 10         // how much of an answer's body is read and discarded
	drainTimeout = time.Second     // how long reading it may take
	dialTimeout  = 5 * time.Second // how long one address may take to answer
	maxDials     = 4               // how many addresses of a host are tried
)

// Config is what a Client needs.
type Config struct {
	Policy   Policy         // required, and valid
	Timeout  time.Duration  // of a whole delivery; default 15s
	Resolver *net.Resolver  // default net.DefaultResolver
	Roots    *x509.CertPool // who certifies receivers; default the system's
}

// Client delivers webhooks.
type Client struct {
	policy   Policy
	keys     [][]byte
	timeout  time.Duration
	resolver *net.Resolver
	http     *http.Transport // without an http.Client around it, which would follow redirects
}

// Check returns why webhooks may not go to a URL (Policy.Check).
func (c *Client) Check(rawURL string) error { return c.policy.Check(rawURL) }

// Enabled reports whether there can be webhooks at all (Policy.Enabled).
func (c *Client) Enabled() bool { return c.policy.Enabled() }

// New returns a client for a valid policy.
func New(c Config) (*Client, error) {
	if err := c.Policy.Valid(); err != nil {
		return nil, err
	}
	cl := &Client{
		policy:   c.Policy,
		timeout:  cmp.Or(c.Timeout, 15*time.Second),
		resolver: cmp.Or(c.Resolver, net.DefaultResolver),
	}
	if c.Policy.Enabled() {
		cl.keys, _ = keys(c.Policy.Secret) // Valid has checked it
	}
	// No proxy: one from the environment could go anywhere. No keep-alive: each delivery checks the addresses again.
	cl.http = &http.Transport{
		DialContext: cl.dial, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.Roots},
	}
	return cl, nil
}

// Attempt is the outcome of one delivery.
type Attempt struct {
	Status    int    // the receiver's; 0: no answer
	Delivered bool   // the receiver accepted it
	Permanent bool   // the receiver wants no more of them
	Reason    string // why it was not delivered, for people; no address but the URL's host, nothing of an answer's body
}

// Deliver posts a JSON body once, in ctx's trace if it has one. All tries of a message have the same id; at is the time
// of this try. If ctx ends meanwhile, the attempt says nothing about the receiver.
func (c *Client) Deliver(ctx context.Context, rawURL, id string, at time.Time, body []byte) Attempt {
	u, err := c.policy.target(rawURL) // again: the configuration may have changed since the URL was accepted
	if err != nil {
		return Attempt{Reason: fault.Of(err).Message}
	}
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, schemeKey{}, u.Scheme), c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return Attempt{Reason: "callback_url is not a URL that can be posted to"}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "agent-orchestrator")
	req.Header.Set(headerID, id)
	req.Header.Set(headerTimestamp, strconv.FormatInt(at.Unix(), 10))
	req.Header.Set(headerSignature, signature(c.keys, id, at, body))
	trace.Inject(ctx, req.Header)

	res, err := c.http.RoundTrip(req)
	if err != nil {
		return Attempt{Reason: c.reason(ctx, u, err)}
	}
	// Reading a little of the body keeps the receiver from being cut off in the middle of an "ok". The status
	// is enough.
	stop := time.AfterFunc(drainTimeout, cancel)
	_, _ = io.CopyN(io.Discard, res.Body, maxDrain)
	stop.Stop()
	_ = res.Body.Close()
	return outcome(u.Hostname(), res.StatusCode)
}

func outcome(host string, status int) Attempt {
	a := Attempt{Status: status}
	switch {
	case status >= 200 && status < 300:
		a.Delivered = true
	case status == http.StatusGone:
		a.Permanent, a.Reason = true, host+" answered 410 Gone: it accepts no more callbacks"
	case status >= 300 && status < 400:
		a.Reason = fmt.Sprintf("%s answered %d, a redirect; callbacks follow none, give the address that it leads to",
			host, status)
	default:
		a.Reason = fmt.Sprintf("%s answered %d %s", host, status, http.StatusText(status))
	}
	return a
}

type schemeKey struct{}

// errNotAllowed is returned for an address that the policy does not allow.
var errNotAllowed = errors.New("address is not allowed")

// dial looks up a host, checks every address, and connects to one of exactly those.
func (c *Client) dial(ctx context.Context, network, hostport string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, err
	}
	allowed := c.policy.allows
	if ctx.Value(schemeKey{}) == "http" { // without TLS only to networks that are named
		allowed = c.policy.allowsPrivate
	}
	addrs := []netip.Addr{}
	if a, err := netip.ParseAddr(host); err == nil {
		addrs = append(addrs, a)
	} else {
		addrs, err = c.resolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return nil, err
		}
	}
	for _, a := range addrs { // one bad address spoils the name: that is how names are made to point inside
		if !allowed(a) {
			return nil, errNotAllowed
		}
	}
	d := net.Dialer{Timeout: dialTimeout, Control: guard(allowed)}
	err = &net.DNSError{Err: "no address", Name: host, IsNotFound: true}
	for i, a := range addrs {
		if i == maxDials {
			break
		}
		conn, dialErr := d.DialContext(ctx, network, net.JoinHostPort(a.Unmap().String(), port))
		if dialErr == nil {
			return conn, nil
		}
		err = dialErr
	}
	return nil, err
}

// guard checks the address of a socket just before it connects, whatever led there.
func guard(allowed func(netip.Addr) bool) func(network, address string, _ syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		if to, err := netip.ParseAddrPort(address); err != nil || !allowed(to.Addr()) {
			return errNotAllowed
		}
		return nil
	}
}

// reason says for people why there was no answer. Errors contain addresses, so their texts are not passed on.
func (c *Client) reason(ctx context.Context, u *url.URL, err error) string {
	host := u.Hostname()
	name, isName := errors.AsType[*net.DNSError](err)
	_, badCert := errors.AsType[*tls.CertificateVerificationError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	op, isOp := errors.AsType[*net.OpError](err)
	alert := isOp && (op.Op == "remote error" || op.Op == "local error") // crypto/tls calls TLS alerts so
	timeout, isTimeout := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, errNotAllowed) && u.Scheme == "http":
		return host + " has an address outside the networks that AO_CALLBACK_NETWORKS allows, and http goes " +
			"nowhere else; use https"
	case errors.Is(err, errNotAllowed):
		return host + " has an address that is not public; callbacks go there only where AO_CALLBACK_NETWORKS " +
			"allows its network"
	case errors.Is(ctx.Err(), context.Canceled):
		return "The coordinator cancelled the delivery"
	case ctx.Err() != nil:
		return fmt.Sprintf("%s did not answer in time (%v)", host, c.timeout)
	case isName && name.IsNotFound:
		return "The name " + host + " has no address"
	case isName:
		return "The address of " + host + " could not be looked up"
	case badCert:
		return "The certificate of " + host + badCertificate(err)
	case noTLS:
		return host + " does not speak TLS at that port"
	case alert:
		return host + " and the coordinator have no TLS version or cipher in common"
	case errors.Is(err, syscall.ECONNREFUSED):
		return host + " refused the connection"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "There is no route to " + host
	case errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE),
		errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF):
		return host + " closed the connection without an answer"
	case isTimeout && timeout.Timeout():
		return "No connection to " + host + " was established in time"
	}
	return "The request to " + host + " failed, or its answer was not HTTP"
}

func badCertificate(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return " is signed by an unknown authority"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return " is for another name"
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Reason == x509.Expired {
		return " is not valid at this time"
	}
	return " is not acceptable"
}
