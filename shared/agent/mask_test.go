package agent

import (
	"strings"
	"testing"
	"time"
)

// TestMasked: what is below env and headers is hidden, whatever its shape; the rest is as it was.
func TestMasked(t *testing.T) {
	for _, tt := range []struct{ servers, want string }{
		{``, ``},
		{`{}`, `{}`},
		{`{"z":{"command":"x","args":["-a"],"env":{"B":"1","A":"2"}},"a":{"url":"https://x",` +
			`"headers":{"Authorization":"Bearer s"},"n":1.50}}`,
			`{"z":{"command":"x","args":["-a"],"env":{"B":"••••","A":"••••"}},"a":{"url":"https://x",` +
				`"headers":{"Authorization":"••••"},"n":1.50}}`},
		{`{"env":{"command":"x"},"headers":{"url":"y","env":{}}}`,
			`{"env":{"command":"x"},"headers":{"url":"y","env":{}}}`},
		{`{"a":{"ENV":{"A":{"deep":"s"}},"Headers":["s"],"env":"s"}}`,
			`{"a":{"ENV":{"A":"••••"},"Headers":"••••","env":"••••"}}`},
		{`{"a":{"transport":{"headers":{"A":"s"},"kind":"http"}}}`,
			`{"a":{"transport":{"headers":{"A":"••••"},"kind":"http"}}}`},
		{`{"a":{"args":["-a", 1.50],"hops":[{"env":{"A":"s"}},[{"Headers":{"B":"s"},"n":1}]]}}`,
			`{"a":{"args":["-a",1.50],"hops":[{"env":{"A":"••••"}},[{"Headers":{"B":"••••"},"n":1}]]}}`},
		{`{"a":{"url":"https://me:s@x.example:8/p@1?key=s&n&e=#f"}}`,
			`{"a":{"url":"https://••••@x.example:8/p@1?key=••••&••••&e=#f"}}`},
		{`{"a":{"url":"https:\/\/s@x","to":["nats://a:s@x,nats://s@y"]}}`,
			`{"a":{"url":"https://••••@x","to":["nats://••••@x,nats://••••@y"]}}`},
		{`{"a":{"url":"https:\/\/x/\u003c"}}`, `{"a":{"url":"https:\/\/x/\u003c"}}`},
		{`{"a":{"args":["--api-key","s","--port",8,"--auth-token",7,"-H","A: s","--url=http://s@x"]}}`,
			`{"a":{"args":["--api-key","••••","--port",8,"--auth-token","••••","-H","••••","--url=http://••••@x"]}}`},
		{`{"a":{"args":["--token","--secret","s","--header=A: s","-eMY_KEY=s=","--env=PASSWORD=s","token","a=b"]}}`,
			`{"a":{"args":["--token","--secret","••••","--header=••••","-eMY_KEY=••••","--env=PASSWORD=••••",` +
				`"token","a=b"]}}`},
		{`{"a":{"command":"run -v --token  s -v KEY=s","apiKey":"s","oauth":{"clientSecret":"s","port":1}}}`,
			`{"a":{"command":"run -v --token ••••","apiKey":"••••","oauth":{"clientSecret":"••••","port":1}}}`},
		{`{"a":{"tokens":["s"],"secret":123,"key":null,"pwd":"s","args":["--pass","s"]}}`,
			`{"a":{"tokens":"••••","secret":"••••","key":null,"pwd":"••••","args":["--pass","••••"]}}`},
		{`{"a":"s","b":["s"]}`, `{"a":"••••","b":"••••"}`},
		{`{"q\"":{"env":{"<&>":"s"}}}`, `{"q\"":{"env":{"\u003c\u0026\u003e":"••••"}}}`},
	} {
		b := Blueprint{MCPServers: []byte(tt.servers)}
		if got := string(b.Masked().MCPServers); got != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.servers, got, tt.want)
		}
		if string(b.MCPServers) != tt.servers {
			t.Errorf("the agent itself is changed: %s", b.MCPServers)
		}
	}
}

// TestMaskingTakesTimeInProportion: text that is made of blanks, words or flags is gone through once.
func TestMaskingTakesTimeInProportion(t *testing.T) {
	for _, unit := range []string{" ", "a ", "--port ", "a=b ", "https://x "} {
		text := strings.Repeat(unit, 1<<20/len(unit))
		began := time.Now()
		Blueprint{MCPServers: []byte(`{"a":{"command":"` + text + `"}}`)}.Masked()
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("1 MiB of %q took %s", unit, took)
		}
	}
}
