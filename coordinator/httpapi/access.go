package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"ao/coordinator/access"
	"ao/shared/fault"
	"ao/shared/fleet"
	"ao/shared/run"

	"github.com/gin-gonic/gin"
)

// caller is who asks, once the door knows.
func caller(g *gin.Context) access.Caller { return of(g).who }

// authorize finds out who asks and whether they may, before anything of the request is read. It answers with what is missing.
func (a *API) authorize(g *gin.Context) error {
	rule := access.RuleOf(g.Request.Method, g.FullPath())
	if rule.Scope == access.Open {
		return nil
	}
	who, err := a.identify(g.Request)
	if err != nil {
		if fault.KindOf(err) == fault.Unauthorized {
			g.Writer.Header().Set("WWW-Authenticate", challenge(g.Request))
		}
		return err
	}
	of(g).who = who
	if who.Session != "" {
		return a.ofSession(g, who.Session, rule.Session)
	}
	if err = who.Needs(rule.Scope); err != nil {
		g.Writer.Header().Set("WWW-Authenticate", `Bearer realm="ao", error="insufficient_scope", scope="`+rule.Scope.String()+`"`)
	}
	return err
}

// challenge says to a client's library what its person reads in the body.
func challenge(r *http.Request) string {
	if r.Header.Get("Authorization") == "" {
		return `Bearer realm="ao"`
	}
	return `Bearer realm="ao", error="invalid_token"`
}

// identify tells who asks. A session token always counts, for it takes rights away where no tokens are asked for.
func (a *API) identify(r *http.Request) (access.Caller, error) {
	given := r.Header.Values("Authorization")
	token, err := "", error(nil)
	if len(given) > 0 {
		token, err = bearer(given)
	}
	switch {
	case err == nil && strings.HasPrefix(token, fleet.TokenPrefix):
		session, err := a.c.SessionOf(r.Context(), token)
		if err != nil {
			return access.Caller{}, err
		}
		who := access.OfSession(session)
		who.Run, _, _ = fleet.ReadSessionToken(token)
		return who, nil
	case a.cfg.Tokens == nil:
		return access.Anybody, nil
	case err != nil:
		return access.Caller{}, err
	case token == "":
		return access.Caller{}, fault.New(fault.Unauthorized, "", "This coordinator asks for a token: send 'Authorization: Bearer TOKEN'; whoever runs it makes one with: ao tokens create")
	}
	return a.cfg.Tokens.Check(token)
}

// bearer reads the header.
func bearer(given []string) (string, error) {
	if len(given) > 1 {
		return "", fault.New(fault.Unauthorized, "", "Authorization is given more than once; send one")
	}
	scheme, token, _ := strings.Cut(strings.TrimSpace(given[0]), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", fault.New(fault.Unauthorized, "", "Authorization must be: Bearer TOKEN")
	}
	return token, nil
}

// ofSession lets a session token do what its session may.
func (a *API) ofSession(g *gin.Context, own string, right access.Right) error {
	switch right {
	case access.Shared, access.Submits: // what is submitted is looked at when it is read (request)
		return nil
	case access.Lists:
		return a.family(g, own)
	case access.Reads, access.Acts:
		session, err := a.sessionOf(g.Request.Context(), g.Param("id"))
		if session == "" || err != nil { // there is none like that; the route says so
			return err
		}
		return a.c.Within(g.Request.Context(), session, own, right == access.Reads)
	}
	return access.ErrNotForSessions
}

// sessionOf is the session of a run or session id; empty: it is no such id, or there is no such run.
func (a *API) sessionOf(ctx context.Context, id string) (string, error) {
	if run.CheckSessionID(id) == nil {
		return id, nil
	}
	if run.CheckID(id) != nil {
		return "", nil
	}
	r, err := a.c.Show(ctx, id)
	if fault.KindOf(err) == fault.NotFound && err != nil {
		return "", nil
	}
	return r.SessionID, err
}

// family keeps a session's lists to what it may read: a list that names no session is that of its children. A session that does not
// exist is refused here, lest a stream waits for a stranger's that begins later under that id.
func (a *API) family(g *gin.Context, own string) error {
	u := g.Request.URL
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil // the route says so
	}
	named := false
	for _, name := range []string{"session_id", "parent_session_id"} {
		if !values.Has(name) {
			continue
		}
		id := values.Get(name)
		if named = true; run.CheckSessionID(id) != nil { // or it is empty
			continue // the route says so
		}
		if err := a.c.Within(g.Request.Context(), id, own, true); err != nil {
			return err
		}
	}
	switch {
	case named:
	case g.FullPath() == "/sse/sessions":
		return fault.New(fault.Forbidden, "", "With a session token a stream is that of one session: name it with session_id").With("field", "session_id")
	default:
		values.Set("parent_session_id", own)
		u.RawQuery = values.Encode()
	}
	return nil
}

// request reads a run's request; that of a session is its own.
func (a *API) request(g *gin.Context) ([]byte, error) {
	body, err := a.body(g)
	if own := caller(g).Session; err == nil && own != "" {
		return a.c.AsSession(g.Request.Context(), own, body)
	}
	return body, err
}

// serveMCP hands a request to the MCP side, read within our limits.
func (a *API) serveMCP(g *gin.Context, _ query) (any, error) {
	body, err := a.body(g)
	if err != nil {
		return nil, err
	}
	g.Request.Body = io.NopCloser(bytes.NewReader(body))
	w := &paced{ResponseWriter: g.Writer}
	x := of(g)
	x.waited = a.mcp.Serve(w, g.Request, body, x.who, x.work.Empty)
	switch f := w.fault(); {
	case w.refusal == 0:
		return written{}, nil
	case w.refusal >= 500:
		return nil, errors.New(f.Message)
	default:
		a.refused(g, f.Code)
		return reply{status: w.refusal, body: f}, nil
	}
}

// paced is a writer that somebody else writes to: a reader that is too slow is cut off all the same, and a refusal in plain text is
// kept, to be answered as every other one.
type paced struct {
	http.ResponseWriter
	refusal int // its status; 0: there is none
	text    []byte
}

// WriteHeader keeps a refusal in plain text to itself.
func (p *paced) WriteHeader(status int) {
	if status >= 400 && strings.HasPrefix(p.Header().Get("Content-Type"), "text/plain") {
		p.refusal = status
		return
	}
	p.ResponseWriter.WriteHeader(status)
}

func (p *paced) Write(b []byte) (int, error) {
	if p.refusal != 0 {
		p.text = append(p.text, b...)
		return len(b), nil
	}
	return len(b), send(p.ResponseWriter, b)
}

// fault is the refusal that was kept. What has no kind of its own is Invalid: the caller is to mend the request.
func (p *paced) fault() *fault.Fault {
	kind := fault.Invalid
	for k, code := range status {
		if code == p.refusal {
			kind = k
		}
	}
	return fault.New(kind, "", strings.TrimSpace(string(p.text)))
}

// Unwrap lets the writer be flushed.
func (p *paced) Unwrap() http.ResponseWriter { return p.ResponseWriter }
