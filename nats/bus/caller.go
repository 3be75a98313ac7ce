package bus

import (
	"context"
	"encoding/json"

	"ao/nats/subject"

	"github.com/nats-io/nats.go"
)

// callerHeader is where a server says which connection a request came from. It writes this into every request that crosses
// accounts, over whatever the client has written there.
const callerHeader = "Nats-Request-Info"

// Caller is who made a request, as the server says it; what the request itself claims is not in it.
type Caller struct {
	Credential string // the token of its user (subject.Door); "": not known
	Unnamed    bool   // it came from another account, and that account's imports do not have its users named ("share")
}

type callerKey struct{}

// CallerOf is who made the request that a handler of Serve was called with.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// withCaller adds who made a request. Where this process did not log in, requests cross no accounts: whoever sends one could
// write the header itself.
func (b *Requests) withCaller(ctx context.Context, m *nats.Msg) context.Context {
	text := m.Header.Get(callerHeader)
	if text == "" || b.CredentialID() == "" {
		return ctx
	}
	var info struct {
		User string `json:"user"`
		Kind string `json:"kind"`
	}
	if json.Unmarshal([]byte(text), &info) != nil {
		return ctx
	}
	c := Caller{Unnamed: info.User == "" && info.Kind == ""}
	if info.Kind == "Client" { // a leaf node speaks for others
		c.Credential = subject.CredentialID(info.User)
	}
	return context.WithValue(ctx, callerKey{}, c)
}
