// Package access says who may do what over HTTP and MCP: API tokens with scopes, read from a file of their
// hashes, session tokens with the rights of one session, and the table of what every route needs.
package access

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ao/shared/fault"
)

// Scope is what an API token is good for. Each holds those before it.
type Scope uint8

// The scopes.
const (
	Open  Scope = iota // nobody is asked for a token
	Read               // look at everything
	Run                // read, and start, resume and stop runs
	Admin              // everything
)

var scopes = [...]string{"open", "read", "run", "admin"}

func (s Scope) String() string { return scopes[s] }

// ReadScopes reads a comma list of scopes and gives the one that holds them all.
func ReadScopes(list string) (Scope, error) {
	most := Open
	for word := range strings.SplitSeq(list, ",") {
		i := slices.Index(scopes[:], strings.TrimSpace(word))
		if i < int(Read) {
			return Open, fmt.Errorf("scope %.40q: use read, run or admin", word)
		}
		most = max(most, Scope(i))
	}
	return most, nil
}

// Caller is who asks.
type Caller struct {
	Name    string // of its API token; empty: none was asked for
	Scope   Scope  // of its API token; a session has none
	Session string // the session whose token it shows; empty: it is no executor's
	Run     string // the run that it was made for

	Expires time.Time // of its API token; zero: never
	Login   Pass      // the browser's login that stands for the token; zero: it shows the token itself
	key     string
}

// Allowed says whether a caller with this scope, or a session, may use a route; what else it needs is said elsewhere.
func (c Caller) Allowed(r Rule) bool {
	if c.Session != "" {
		return r.Session != Nothing
	}
	return c.Scope >= r.Scope
}

// Unauthenticated is a caller where no tokens are asked for: whoever reaches this address may do everything.
var Unauthenticated = Caller{Scope: Admin, key: "http"}

// SessionCaller is a caller with a session's token.
func SessionCaller(id string) Caller { return Caller{Session: id, key: "session:" + id} }

// KeyScope tells one caller's idempotency keys from another's.
func (c Caller) KeyScope() string { return c.key }

// RequireScope refuses a caller whose token has not this scope. A session has no scope: what it may do is said elsewhere.
func (c Caller) RequireScope(s Scope) error {
	if c.Session == "" && c.Scope < s {
		return fault.Newf(fault.Forbidden, "This needs a token with scope %s, and token %q has %s; whoever runs the "+
			"coordinator makes one with: ao tokens create --scope %s", s, c.Name, c.Scope, s).
			With("scope", s.String())
	}
	return nil
}

// ErrNotForSessions refuses a session what no session may do.
var ErrNotForSessions = fault.New(fault.Forbidden, "", "A session token is good for its own session and those it "+
	"started: start, resume, read and stop them, list agents and output schemas; nothing else")
