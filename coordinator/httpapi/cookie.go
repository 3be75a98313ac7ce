package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"ao/coordinator/access"
	"ao/shared/fault"

	"github.com/gin-gonic/gin"
)

// Logins is what all coordinators of a deployment agree on about who is logged in.
type Logins interface {
	Deployment() (string, error)
	Sign(text string) string
	End(ctx context.Context, id string) (first bool, err error)
	Ended(ctx context.Context, id string) (bool, error)
}

// The beginnings of the cookie's name. It ends with the deployment's: cookies know no ports, and two deployments on one
// host must not log each other out.
const (
	cookiePrefix = "ao_"
	hostPrefix   = "__Host-" + cookiePrefix // over TLS: browsers take it from this very host alone, and over TLS alone
)

// maxCookies is how many cookies of our name are looked at. Other servers on the host may set some, too.
const maxCookies = 4

// pageHeader is what the dashboard sends with every request. A page of another origin cannot: browsers ask first.
const pageHeader = "X-Requested-With"

// cookieCaller tells who a browser's cookie stands for; the zero Caller: it has none. Whoever has one is refused where
// the browser does not say that a page of ours asks.
func (a *guard) cookieCaller(r *http.Request) (who access.Caller, err error) {
	if r.Header.Get("Cookie") == "" {
		return who, nil
	}
	name, _, err := a.cookieName(r)
	if err != nil {
		return who, err
	}
	all := r.CookiesNamed(name)
	if len(all) == 0 {
		return who, nil
	}
	if !sameOrigin(r) {
		return who, fault.New(fault.Forbidden, "foreign_origin",
			"A login is good for the dashboard's own requests (Sec-Fetch-Site: same-origin, or our Origin); programs "+
				"send 'Authorization: Bearer TOKEN'")
	}
	for _, c := range all[:min(len(all), maxCookies)] {
		who, err = a.tokens.CheckPass(access.Cookie, c.Value, a.logins.Sign)
		if err == nil {
			break
		}
	}
	if err != nil {
		return access.Caller{}, err
	}
	over, err := a.logins.Ended(r.Context(), who.Login.ID)
	switch {
	case err != nil:
		return access.Caller{}, err
	case over:
		return access.Caller{}, fault.New(fault.Unauthorized, "", "This login has ended; log in again")
	}
	return who, nil
}

// sameOrigin says that the browser asks for a page of ours. Foreign origins were refused before, so an Origin is our
// own. Over plain HTTP beyond loopback browsers say nothing with a read; then the dashboard's own header says it.
func sameOrigin(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin":
		return true
	case "":
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		return r.Header.Get("Origin") != "" || reads && r.Header.Get(pageHeader) != ""
	}
	return false
}

// logIn logs a caller in: the answer has the cookie.
func (a *guard) logIn(g *gin.Context, who access.Caller) (access.Caller, error) {
	value := a.tokens.Issue(access.Cookie, who, a.logins.Sign)
	who, err := a.tokens.CheckPass(access.Cookie, value, a.logins.Sign) // or the token was revoked at this moment
	if err == nil {
		err = a.setCookie(g, value, access.Cookie.TTL)
	}
	return who, err
}

// renew has a login last as long again, now and then.
func (a *guard) renew(g *gin.Context, who access.Caller) error {
	if (who.Login == access.Pass{}) || !a.tokens.NeedsRenewal(access.Cookie, who.Login) {
		return nil
	}
	return a.setCookie(g, a.tokens.Renew(access.Cookie, who.Login, a.logins.Sign), access.Cookie.TTL)
}

// cookieName is the name of the cookie of a request: no other name is read or set. secure: it goes over TLS only.
func (a *guard) cookieName(r *http.Request) (name string, secure bool, err error) {
	deployment, err := a.logins.Deployment()
	if a.secure || r.TLS != nil {
		return hostPrefix + deployment, true, err
	}
	return cookiePrefix + deployment, false, err
}

// setCookie gives the browser the cookie, or takes it away.
func (a *guard) setCookie(g *gin.Context, value string, last time.Duration) error {
	name, secure, err := a.cookieName(g.Request)
	if err != nil {
		return err
	}
	http.SetCookie(g.Writer, &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: cmp.Or(int(last/time.Second), -1),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: secure,
	})
	return nil
}
