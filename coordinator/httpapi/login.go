package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"ao/coordinator/access"
	"ao/shared/fault"
	"ao/shared/runnerapi"
	"ao/shared/strictjson"
	"ao/shared/version"

	"github.com/gin-gonic/gin"
)

// loginAPI reports who the caller is, and logs browsers in and out.
type loginAPI struct {
	guard    *guard
	failures *rateLimiter // by address
	logins   *rateLimiter // by token
	codes    *rateLimiter // by token
}

func newLoginAPI(guard *guard) *loginAPI {
	return &loginAPI{
		guard:    guard,
		failures: newRateLimiter(maxFailures, "wrong tokens from your address"),
		logins:   newRateLimiter(maxLogins, "logins with this token"),
		codes:    newRateLimiter(maxLogins, "codes for this token"),
	}
}

// errNoTokens refuses logins where no tokens are required.
var errNoTokens = fault.New(fault.Conflict, "", "This coordinator requires no tokens, so there is no login")

// me describes the caller and its rights.
type me struct {
	Name       string     `json:"name"` // of the token, or a session's id; empty: no token was required
	Kind       string     `json:"kind"`
	Scope      string     `json:"scope"`      // of the token; sessions have none
	Expires    *time.Time `json:"expires_at"` // of the token; null: never
	Login      bool       `json:"login"`      // tokens are required here
	Version    string     `json:"version"`
	Deployment string     `json:"deployment"`
	Time       time.Time  `json:"time"`
	May        []string   `json:"may"` // the routes that the caller may use
}

// credentials log a browser in: one of them.
type credentials struct {
	Token string `json:"token,omitempty"`
	Code  string `json:"code,omitempty"`
}

// loginCode is a code that logs a browser in once.
type loginCode struct {
	Code    string `json:"code"`
	Seconds int    `json:"expires_in"`
}

// show answers GET /me.
func (a *loginAPI) show(g *gin.Context, _ request) (any, error) { return a.describe(caller(g)) }

func (a *loginAPI) describe(who access.Caller) (me, error) {
	deployment, err := a.guard.logins.Deployment()
	if err != nil {
		return me{}, err
	}
	m := me{
		Name: who.Name, Kind: "none", Login: a.guard.tokens != nil, Version: version.Current(), Deployment: deployment,
		Time: time.Now().UTC().Truncate(time.Second), May: []string{},
	}
	switch {
	case who.Session != "":
		m.Name, m.Kind = who.Session, "session"
	case who.Login != access.Pass{}:
		m.Kind = "cookie"
	case who.Name != "":
		m.Kind = "token"
	}
	if who.Session == "" {
		m.Scope = who.Scope.String()
	}
	if !who.Expires.IsZero() {
		m.Expires = &who.Expires
	}
	for route, rule := range access.Rules {
		if who.Allowed(rule) {
			m.May = append(m.May, route)
		}
	}
	slices.Sort(m.May)
	return m, nil
}

// login logs a browser in with a token or a code. The answer sets the cookie.
func (a *loginAPI) login(g *gin.Context, q request) (any, error) {
	if a.guard.tokens == nil {
		return nil, errNoTokens
	}
	given, err := readCredentials(q.body)
	if err != nil {
		return nil, err
	}
	if _, err := a.guard.logins.Deployment(); err != nil {
		return nil, err
	}
	who, err := a.check(given)
	if err == nil {
		err = a.logins.allow(who.Name) // before anything is stored in NATS
	}
	if err == nil {
		who, err = a.redeem(g.Request.Context(), who)
	}
	if err != nil && fault.KindOf(err) == fault.Unauthorized { // a right token is never counted, nor locked out
		return nil, cmp.Or(a.failures.allow(addressOf(g.Request.RemoteAddr)), err)
	}
	if err != nil {
		return nil, err
	}
	exchangeOf(g).who = who
	who, err = a.guard.logIn(g, who)
	if err != nil {
		return nil, err
	}
	return a.describe(who)
}

// readCredentials reads the credentials. Its errors never repeat them.
func readCredentials(raw []byte) (given credentials, err error) {
	if !json.Valid(raw) || strictjson.Decode(raw, &given) != nil || (given.Token == "") == (given.Code == "") {
		err = fault.New(fault.Invalid, "", `The body must be {"token":"…"} or {"code":"…"}`)
	}
	return given, err
}

// check returns the caller of a token or a code. With a code, the caller has its pass.
func (a *loginAPI) check(given credentials) (access.Caller, error) {
	switch {
	case strings.HasPrefix(given.Token, runnerapi.TokenPrefix):
		return access.Caller{}, fault.New(fault.Unauthorized, "",
			"A session token cannot log in; use an API token (ao tokens create)")
	case given.Token != "":
		return a.guard.tokens.Check(given.Token)
	}
	who, err := a.guard.tokens.CheckPass(access.Code, given.Code, a.guard.logins.Sign)
	if err != nil {
		return access.Caller{}, fault.New(fault.Unauthorized, "",
			"This code is not valid, or older than a minute; run 'ao dashboard' again")
	}
	return who, nil
}

// redeem uses up the code, if there was one.
func (a *loginAPI) redeem(ctx context.Context, who access.Caller) (access.Caller, error) {
	if (who.Login == access.Pass{}) {
		return who, nil
	}
	first, err := a.guard.logins.End(ctx, who.Login.ID)
	if err == nil && !first {
		err = fault.New(fault.Unauthorized, "", "This code was used already; run 'ao dashboard' again")
	}
	who.Login = access.Pass{}
	return who, err
}

// logout ends the browser's login for every coordinator and deletes its cookie.
func (a *loginAPI) logout(g *gin.Context, _ request) (any, error) {
	if a.guard.tokens == nil {
		return nil, nil
	}
	who, err := a.guard.cookieCaller(g.Request)
	switch {
	case err == nil && who.Login != access.Pass{}:
		exchangeOf(g).who = who
		if _, err := a.guard.logins.End(context.WithoutCancel(g.Request.Context()), who.Login.ID); err != nil {
			return nil, err
		}
	case err != nil && fault.KindOf(err) != fault.Unauthorized:
		return nil, err
	}
	return nil, a.guard.setCookie(g, "", -1)
}

// code makes a code that logs a browser in once with the caller's token.
func (a *loginAPI) code(g *gin.Context, _ request) (any, error) {
	if a.guard.tokens == nil {
		return nil, errNoTokens
	}
	if _, err := a.guard.logins.Deployment(); err != nil {
		return nil, err
	}
	if err := a.codes.allow(caller(g).Name); err != nil {
		return nil, err
	}
	code := a.guard.tokens.Issue(access.Code, caller(g), a.guard.logins.Sign)
	return loginCode{code, int(access.Code.TTL / time.Second)}, nil
}
