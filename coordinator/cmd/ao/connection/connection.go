// Package connection makes ao's client of a coordinator: from its flags and environment, with errors and notices in
// words for people.
package connection

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	client "ao/shared/clients/go"
	"ao/shared/tlsroots"
)

// Config says where the coordinator is.
type Config struct {
	URL    string       // default client.DefaultURL
	Token  string       // API token; empty: none is sent
	CA     string       // file of certificate authorities to trust besides the system's (AO_CA)
	Name   string       // name that its certificate must cover; default the host of URL
	Notice func(string) // hears of outages; default: nobody does
}

// New returns a client. It checks the address but does not connect.
func New(c Config) (*client.Client, error) {
	raw := cmp.Or(c.URL, client.DefaultURL)
	if !strings.Contains(raw, "://") {
		raw = "http://" + raw
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("url %q: write it like %s (--url or AO_URL)", c.URL, client.DefaultURL)
	}
	// the error must not show the token: it may be valid except for a line break
	if strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the token has invalid characters, such as spaces; use it exactly as 'ao tokens " +
			"create' printed it (AO_TOKEN or --token)")
	}
	tlsConfig, err := tlsroots.Config(c.CA)
	if err != nil {
		return nil, err
	}
	tlsConfig.ServerName = c.Name
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = tlsConfig
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client.New(client.Config{URL: raw, Token: c.Token, Anonymous: c.Token == "", FailFast: true,
		HTTP: &http.Client{Transport: transport{t}, CheckRedirect: noRedirect}, Notice: Notice(c.Notice)}), nil
}

// Notice returns what gives the notices of outages to a function.
func Notice(notice func(string)) func(client.Outage) {
	if notice == nil {
		return nil
	}
	return func(o client.Outage) {
		switch {
		case o.Left == 0:
			notice(fmt.Sprintf("still failing after %v; giving up", o.Age.Round(time.Second)))
		case o.Age == 0:
			notice(fmt.Sprintf("%v; retrying for up to %v", o.Err, o.Left))
		default:
			notice(fmt.Sprintf("%v; still retrying, for another %v", o.Err, o.Left.Round(time.Second)))
		}
	}
}

// Refusal returns a coordinator's refusal. What another server answers is none.
func Refusal(err error) (refused *client.APIError, ok bool) {
	refused, ok = errors.AsType[*client.APIError](err)
	return refused, ok && refused.Code != ""
}

// Reason says why there is no answer of a coordinator; empty: the error is something else.
func Reason(err error) client.Reason {
	if refused, ok := errors.AsType[*client.APIError](err); ok && refused.Code == "" {
		return client.Foreign
	}
	if e, ok := errors.AsType[*client.UnreachableError](err); ok {
		return e.Reason
	}
	return ""
}
