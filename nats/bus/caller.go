package bus

import (
	"context"
	"encoding/json"

	"ao/nats/subject"

	"github.com/nats-io/nats.go"
)

// callerHeader is the header in which the server names the connection a request came from. The server
// overwrites it in every request that crosses accounts, so a client cannot forge it there.
const callerHeader = "Nats-Request-Info"

// Caller is who sent a request, as the server says.
type Caller struct {
	Credential string // id of the sender's credential (subject.CredentialID); "": unknown
	Unnamed    bool   // the request came from another account whose imports do not name their users ("share")
}

type callerKey struct{}

// CallerOf returns the sender of the request that a handler of Serve was called with.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// withCaller adds the sender to ctx. Without a login of our own, requests cross no accounts and a sender could
// forge the header: then it is ignored.
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
	if info.Kind == "Client" { // a leaf node forwards for others
		c.Credential = subject.CredentialID(info.User)
	}
	return context.WithValue(ctx, callerKey{}, c)
}
