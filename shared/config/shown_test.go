package config

import (
	"strings"
	"testing"
)

// TestShown: what is in force, and where it is from; no secret is shown, nor a password in an address.
func TestShown(t *testing.T) {
	var addr, secret, nats, level string
	var users string
	bound := []Bound{HTTPAddr.To(&addr), CallbackSecret.To(&secret), NATSURL.To(&nats), LogLevel.To(&level),
		NATSUsers.To(&users), Renamed("AO_OLD", "old", "AO_NEW")}
	env := map[string]string{"AO_HTTP_ADDR": "127.0.0.1:1", "AO_CALLBACK_SECRET": "whsec_SECRET",
		"AO_NATS_URL": "nats://me:SECRET@a:4222,nats://TOKEN@b:4222,nats://c:4222", "AO_NATS_USERS": ""}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	if err := Parse(Program{Name: "p"}, strings.Fields("--http-addr 127.0.0.1:2"), lookup, bound...); err != nil {
		t.Fatal(err)
	}
	want := []EffectiveSetting{
		{Name: "AO_HTTP_ADDR", Value: "127.0.0.1:2", Default: "127.0.0.1:8765", Source: FromFlag, Help: HTTPAddr.Doc},
		{Name: "AO_CALLBACK_SECRET", Value: secretSet, Source: FromEnvironment, Help: CallbackSecret.Doc, Secret: true},
		{Name: "AO_NATS_URL", Value: "nats://••••@a:4222,nats://••••@b:4222,nats://c:4222", Default: NATSURL.Default,
			Source: FromEnvironment, Help: NATSURL.Doc},
		{Name: "AO_LOG_LEVEL", Value: "info", Default: "info", Source: FromDefault, Help: LogLevel.Doc},
		{Name: "AO_NATS_USERS", Source: FromDefault, Help: NATSUsers.Doc},
	}
	got := inForce(bound)
	if len(got) != len(want) {
		t.Fatalf("%d settings: %+v", len(got), got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %+v\nwant %+v", got[i], want[i])
		}
	}
	if nats != env["AO_NATS_URL"] {
		t.Errorf("the program goes by %q", nats)
	}
	delete(env, "AO_CALLBACK_SECRET")
	bound[1] = CallbackSecret.To(&secret)
	if err := Parse(Program{Name: "p"}, nil, lookup, bound...); err != nil || inForce(bound)[1].Value != secretUnset {
		t.Errorf("%v, a secret that is not set: %+v", err, inForce(bound)[1])
	}
}
