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

// Logins signs and ends logins for all coordinators.
type Logins interface {
	Deployment() (string, error)
	Sign(text string) string
	End(ctx context.Context, id string) (first bool, err error)
	Ended(ctx context.Context, id string) (bool, error)
}

// Prefixes of the cookie's name. It ends with the deployment's name: cookies ignore ports, and two deployments on one
// host must not end each other's logins.
const (
	cookiePrefix = "ao_"
	hostPrefix   = "__Host-" + cookiePrefix // over TLS: browsers take it from this very host alone, and over TLS alone
)

// maxCookies is how many cookies of our name are tried. Other servers on the host may set some.
const maxCookies = 4

// pageHeader is sent by the dashboard with every request. Pages of other origins cannot send it without a preflight.
const pageHeader = "X-Requested-With"

// cookieCaller returns the caller of a browser's cookie; the zero Caller: it has none. The request must come from our
// own page.
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

// sameOrigin reports whether our own page makes the request. Foreign origins were refused before. Over plain HTTP
// beyond loopback, browsers send no Sec-Fetch-Site; then pageHeader counts.
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

// logIn starts a login: the answer sets the cookie.
func (a *guard) logIn(g *gin.Context, who access.Caller) (access.Caller, error) {
	value := a.tokens.Issue(access.Cookie, who, a.logins.Sign)
	who, err := a.tokens.CheckPass(access.Cookie, value, a.logins.Sign) // or the token was revoked at this moment
	if err == nil {
		err = a.setCookie(g, value, access.Cookie.TTL)
	}
	return who, err
}

// renew extends a login now and then.
func (a *guard) renew(g *gin.Context, who access.Caller) error {
	if (who.Login == access.Pass{}) || !a.tokens.NeedsRenewal(access.Cookie, who.Login) {
		return nil
	}
	return a.setCookie(g, a.tokens.Renew(access.Cookie, who.Login, a.logins.Sign), access.Cookie.TTL)
}

// cookieName returns the cookie's name for a request. secure: it is sent over TLS only.
func (a *guard) cookieName(r *http.Request) (name string, secure bool, err error) {
	deployment, err := a.logins.Deployment()
	if a.secure || r.TLS != nil {
		return hostPrefix + deployment, true, err
	}
	return cookiePrefix + deployment, false, err
}

// setCookie sets or deletes the cookie.
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
