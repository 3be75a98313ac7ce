// Package access decides who may do what over HTTP and MCP. API tokens have scopes and are read from a file of hashes.
// Session tokens have the rights of one session. A table says what each route requires.
package access

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ao/shared/fault"
)

// Scope is what an API token may do. Each scope includes those before it.
type Scope uint8

// The scopes.
const (
	Open  Scope = iota // no token is required
	Read               // look at everything
	Run                // read, and start, resume and stop runs
	Admin              // everything
)

var scopes = [...]string{"open", "read", "run", "admin"}

func (s Scope) String() string { return scopes[s] }

// ReadScopes parses a comma list of scopes and returns the largest.
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

// Caller is who makes a request.
type Caller struct {
	Name    string // of its API token; empty: none was required
	Scope   Scope  // of its API token; a session has none
	Session string // of its session token; empty: it has none
	Run     string // of its session token
	Tree    string // the session at the top of that session's tree
	Address string // where the request comes from, if no token was required

	Expires time.Time // of its API token; zero: never
	Login   Pass      // the browser login that stands for the token; zero: it sent the token itself
	key     string
}

// Allowed reports whether the caller's scope or session token may use a route at all.
func (c Caller) Allowed(r Rule) bool {
	if c.Session != "" {
		return r.Session != Nothing
	}
	return c.Scope >= r.Scope
}

// Unauthenticated is the caller where no tokens are required: everybody may do everything.
var Unauthenticated = Caller{Scope: Admin, key: "http"}

// SessionCaller returns the caller with a session's token.
func SessionCaller(id string) Caller { return Caller{Session: id, key: "session:" + id} }

// KeyScope separates the idempotency keys of callers.
func (c Caller) KeyScope() string { return c.key }

// Owner is whose share the caller's requests count to: its token's, its session's tree's, or its address's.
func (c Caller) Owner() string {
	switch {
	case c.Session != "":
		return "tree:" + c.Tree
	case c.Name == "":
		return "address:" + c.Address
	}
	return c.key
}

// RequireScope refuses an API token with a smaller scope. Sessions have no scope and pass.
func (c Caller) RequireScope(s Scope) error {
	if c.Session == "" && c.Scope < s {
		return fault.Newf(fault.Forbidden, "This needs a token with scope %s, and token %q has %s; the "+
			"coordinator's operator creates one with: ao tokens create --scope "+
			"%s", s, c.Name, c.Scope, s).With("scope", s.String())
	}
	return nil
}

// ErrNotForSessions refuses what no session may do.
var ErrNotForSessions = fault.New(fault.Forbidden, "", "A session token is good for its own session and those it "+
	"started: start, resume, read and stop them, list agents and output schemas; nothing else")
