package config

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

type config struct {
	addr    string
	lease   time.Duration
	pending int
	payload int64
	open    bool
	names   []string
	level   string
	nats    string
	sync    string
}

func (c *config) table() []Bound {
	return []Bound{HTTPAddr.To(&c.addr), RunLease.To(&c.lease), MaxPending.To(&c.pending), MaxPayload.To(&c.payload),
		InsecureListen.To(&c.open),
		Profiles.To(&c.names), LogLevel.To(&c.level), NATSURL.To(&c.nats), NATSSync.To(&c.sync),
		Renamed("AO_OLD", "old", "AO_HTTP_ADDR")}
}

func parse(c *config, args string, env ...string) error {
	lookup := func(name string) (string, bool) {
		for _, e := range env {
			if v, ok := strings.CutPrefix(e, name+"="); ok {
				return v, true
			}
		}
		return "", false
	}
	return Parse(Program{Name: "prog"}, strings.Fields(args), lookup, c.table()...)
}

func TestParse(t *testing.T) {
	const defaults = `127.0.0.1:8765 15s 100000 16777216 false [] info nats://127.0.0.1:4222 always`
	for _, tt := range []struct{ name, args, env, want string }{
		{"defaults", "", "", defaults},
		{"environment", "", "AO_HTTP_ADDR=:80 RUN_LEASE=1m30s AO_PROFILES=a,b,,a AO_NATS_URL=embed",
			":80 1m30s 100000 16777216 false [a b] info embed always"},
		{"flag beats environment", "--run-lease 2.5 -max-pending=7", "RUN_LEASE=30 AO_MAX_PENDING=8",
			"127.0.0.1:8765 2.5s 7 16777216 false [] info nats://127.0.0.1:4222 always"},
		{"a variable set to nothing is not set", "", "AO_HTTP_ADDR= RUN_LEASE=", defaults},
		{"short name, switch without value, size, sync", "-x p --insecure-listen --max-payload 2MiB --nats-sync 60",
			"", "127.0.0.1:8765 15s 100000 2097152 true [p] info nats://127.0.0.1:4222 1m0s"},
		{"switch in words", "--insecure-listen=no", "AO_INSECURE_LISTEN=yes", defaults},
		{"several servers", "--nats-url nats://a:1,tls://b", "",
			"127.0.0.1:8765 15s 100000 16777216 false [] info nats://a:1,tls://b always"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c config
			if err := parse(&c, tt.args, strings.Fields(tt.env)...); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(c.addr, " ", c.lease, " ", c.pending, " ", c.payload, " ", c.open, " ", c.names,
				" ", c.level, " ", c.nats, " ", c.sync); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestInvalidValues(t *testing.T) {
	for _, tt := range []struct{ args, env, want string }{
		{"", "RUN_LEASE=soon", `RUN_LEASE: "soon" is not a duration (seconds, or like 1m30s); for example ` +
			`RUN_LEASE=15, or RUN_LEASE=1m30s`},
		{"", "RUN_LEASE=-3", `RUN_LEASE: "-3" is too short, at least 1s; for example RUN_LEASE=15, or RUN_LEASE=1m30s`},
		{"", "RUN_LEASE=1e300", `RUN_LEASE: "1e300" is not a duration (seconds, or like 1m30s); for example ` +
			`RUN_LEASE=15, or RUN_LEASE=1m30s`},
		{"", "RUN_LEASE=NaN",
			`RUN_LEASE: "NaN" is not a duration (seconds, or like 1m30s); for example RUN_LEASE=15, ` +
				`or RUN_LEASE=1m30s`},
		{"--max-pending many", "", `--max-pending (AO_MAX_PENDING): "many" must be a whole number from 1 to ` +
			`2147483647; for example AO_MAX_PENDING=100000`},
		{"", "AO_MAX_PAYLOAD=16XB",
			`AO_MAX_PAYLOAD: "16XB" is not a size (bytes, or like 16MiB); for example AO_MAX_PAYLOAD=16MiB`},
		{"", "AO_MAX_PAYLOAD=9999999999GiB",
			`AO_MAX_PAYLOAD: "9999999999GiB" must be from 1024 to 1073741824 bytes; for example AO_MAX_PAYLOAD=16MiB`},
		{"", "AO_HTTP_ADDR=8765",
			`AO_HTTP_ADDR: "8765" is not an address (host:port); for example AO_HTTP_ADDR=127.0.0.1:8765`},
		{"", "AO_NATS_URL=localhost", `AO_NATS_URL: "localhost" is neither the URL of a NATS server nor "embed"; for ` +
			`example AO_NATS_URL=nats://127.0.0.1:4222`},
		{"", "AO_LOG_LEVEL=loud",
			`AO_LOG_LEVEL: "loud" must be debug or info or warn or error; for example AO_LOG_LEVEL=info`},
		{"", "AO_INSECURE_LISTEN=maybe",
			`AO_INSECURE_LISTEN: "maybe" must be yes or no; for example AO_INSECURE_LISTEN=yes`},
		{"", "AO_OLD=x", `AO_OLD=x was renamed: set AO_HTTP_ADDR instead`},
		{"--colour red", "", `unknown flag -colour`},
		{"--http-addr", "", `missing value after -http-addr`},
		{"now", "", `unexpected argument "now"; every setting is a flag or a variable`},
		{"", "AO_HTTP_ADDR=x AO_LOG_LEVEL=y",
			"AO_HTTP_ADDR: \"x\" is not an address (host:port); for example AO_HTTP_ADDR=127.0.0.1:8765\n" +
				`AO_LOG_LEVEL: "y" must be debug or info or warn or error; for example AO_LOG_LEVEL=info`},
	} {
		t.Run(tt.args+tt.env, func(t *testing.T) {
			if err := parse(new(config), tt.args, strings.Fields(tt.env)...); err == nil || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	var c config
	for _, ask := range []string{"--help", "-h"} {
		if err := parse(&c, ask); !errors.Is(err, errHelp) {
			t.Errorf("%s: got %v, want help", ask, err)
		}
	}
	text := helpText(Program{Name: "prog", About: "Does things."}, c.table()...)
	for _, want := range []string{"Does things.", "-x, --profiles", "AO_HTTP_ADDR", "127.0.0.1:8765", "RUN_LEASE",
		" 15 "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "AO_OLD") {
		t.Error("help offers a setting's old name")
	}
}

// TestDefaults: the defaults in --help are valid values.
func TestDefaults(t *testing.T) {
	var c config
	for _, b := range c.table() {
		for _, v := range []string{b.def, strings.Split(b.example, ",")[0]} {
			if err := b.read(v); v != "" && err != nil {
				t.Errorf("%s=%s: %v", b.env, v, err)
			}
		}
	}
}

func TestFolders(t *testing.T) {
	if got, _ := folders("a::b/c"); !slices.Equal(got, []string{"a", "b/c"}) {
		t.Errorf("got %q", got)
	}
	if got, err := folder(t.TempDir()); err != nil || got == "" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := folder("/no/such/folder"); err == nil {
		t.Error("a folder that does not exist is taken")
	}
}

func TestLogger(t *testing.T) {
	for _, tt := range []struct{ level, format, want string }{
		{"warn", "text", "level=WARN msg=b\n"},
		{"info", "json", `"level":"INFO","msg":"a"}`},
	} {
		var b bytes.Buffer
		log := Logger(&b, tt.level, tt.format)
		log.Info("a")
		log.Warn("b")
		if !strings.Contains(b.String(), tt.want) {
			t.Errorf("%s %s: got %q, want %q in it", tt.level, tt.format, b.String(), tt.want)
		}
	}
}
