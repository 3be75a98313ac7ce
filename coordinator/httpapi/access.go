package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"ao/coordinator/access"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"

	"github.com/gin-gonic/gin"
)

// guard authenticates and authorizes requests.
type guard struct {
	tokens   *access.Tokens // nil: everybody may do everything
	logins   Logins
	secure   bool // cookies are sent over TLS only
	runs     Runs
	sessions Sessions
	history  History
}

// authorize authenticates the caller and checks the route's rule, before anything else of the request is read.
func (a *guard) authorize(g *gin.Context) error {
	rule := access.RuleOf(g.Request.Method, g.FullPath())
	if rule.Scope == access.Open {
		exchangeOf(g).who.Address = addressOf(g.Request.RemoteAddr)
		return nil
	}
	who, err := a.identify(g.Request)
	if err != nil {
		if fault.KindOf(err) == fault.Unauthorized {
			g.Writer.Header().Set("WWW-Authenticate", challenge(g.Request))
		}
		return err
	}
	exchangeOf(g).who = who
	if err := a.renew(g, who); err != nil {
		return err
	}
	if who.Session != "" {
		return a.authorizeSession(g, who.Session, rule.Session)
	}
	err = who.RequireScope(rule.Scope)
	if err != nil {
		g.Writer.Header().Set("WWW-Authenticate", `Bearer realm="ao", error="insufficient_scope", scope="`+
			rule.Scope.String()+`"`)
	}
	return err
}

// challenge returns the header WWW-Authenticate of a 401.
func challenge(r *http.Request) string {
	if r.Header.Get("Authorization") == "" {
		return `Bearer realm="ao"`
	}
	return `Bearer realm="ao", error="invalid_token"`
}

// identify returns the caller. A session token always counts, since it restricts the caller.
func (a *guard) identify(r *http.Request) (access.Caller, error) {
	given := r.Header.Values("Authorization")
	token, err := "", error(nil)
	if len(given) > 0 {
		token, err = readBearer(given)
	}
	switch {
	case err == nil && strings.HasPrefix(token, runnerapi.TokenPrefix):
		session, err := a.sessions.SessionOf(r.Context(), token)
		if err != nil {
			return access.Caller{}, err
		}
		who := access.SessionCaller(session)
		who.Run, _, _ = runnerapi.ReadSessionToken(token)
		who.Tree = a.history.Top(session)
		return who, nil
	case a.tokens == nil:
		who := access.Unauthenticated
		who.Address = addressOf(r.RemoteAddr)
		return who, nil
	case err != nil:
		return access.Caller{}, err
	case token == "":
		if who, err := a.cookieCaller(r); err != nil || who.Name != "" {
			return who, err
		}
		return access.Caller{}, fault.New(fault.Unauthorized, "", "This coordinator requires a token: send "+
			"'Authorization: Bearer TOKEN'; its operator creates one with: ao tokens create")
	}
	return a.tokens.Check(token)
}

// readBearer reads the header Authorization.
func readBearer(given []string) (string, error) {
	if len(given) > 1 {
		return "", fault.New(fault.Unauthorized, "", "Authorization was sent more than once; send it once")
	}
	scheme, token, _ := strings.Cut(strings.TrimSpace(given[0]), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", fault.New(fault.Unauthorized, "", "Authorization must be: Bearer TOKEN")
	}
	return token, nil
}

// authorizeSession checks that a session token may use a route.
func (a *guard) authorizeSession(g *gin.Context, own string, right access.Right) error {
	switch right {
	case access.Shared, access.Submits: // submitted requests are checked when they are read
		return nil
	case access.Lists:
		return a.restrictLists(g, own)
	case access.Reads, access.Acts:
		session, err := a.sessionOf(g.Request.Context(), g.Param("id"))
		if session == "" || err != nil { // no such id: the route reports it
			return err
		}
		return a.sessions.RequireDescendant(g.Request.Context(), session, own, right == access.Reads)
	}
	return access.ErrNotForSessions
}

// sessionOf returns the session of a run id or session id; empty: there is none.
func (a *guard) sessionOf(ctx context.Context, id string) (string, error) {
	if run.CheckSessionID(id) == nil {
		return id, nil
	}
	if run.CheckID(id) != nil {
		return "", nil
	}
	r, err := a.runs.Show(ctx, id)
	if fault.KindOf(err) == fault.NotFound && err != nil {
		return "", nil
	}
	return r.SessionID, err
}

// restrictLists restricts a session's lists to what it may read; without a filter, to its children. It refuses unknown
// sessions: a stream could wait for another's session that starts later under that id.
func (a *guard) restrictLists(g *gin.Context, own string) error {
	u := g.Request.URL
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil // the route reports it
	}
	named := false
	for _, name := range []string{"session_id", "parent_session_id"} {
		if !values.Has(name) {
			continue
		}
		id := values.Get(name)
		named = true
		if run.CheckSessionID(id) != nil { // or it is empty
			continue // the route reports it
		}
		if err := a.sessions.RequireDescendant(g.Request.Context(), id, own, true); err != nil {
			return err
		}
	}
	switch {
	case named:
	case g.FullPath() == "/sse/sessions":
		return fault.New(fault.Forbidden, "",
			"With a session token a stream is that of one session: name it with session_id").With("field", "session_id")
	default:
		values.Set("parent_session_id", own)
		u.RawQuery = values.Encode()
	}
	return nil
}
