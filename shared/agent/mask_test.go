package agent

import (
	"strings"
	"testing"
	"time"
)

// TestMasked: what is below env and headers is hidden, whatever its shape; the rest is unchanged.
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
		{`{"a":{"environment":{"A":"s"},"Environment_Variables":{"B":"s"},"environmentVariables":{"C":"s"}}}`,
			`{"a":{"environment":{"A":"••••"},"Environment_Variables":{"B":"••••"},` +
				`"environmentVariables":{"C":"••••"}}}`},
		{`{"a":{"transport":{"headers":{"A":"s"},"kind":"http"}}}`,
			`{"a":{"transport":{"headers":{"A":"••••"},"kind":"http"}}}`},
		{`{"a":{"args":["-a", 1.50],"hops":[{"env":{"A":"s"}},[{"Headers":{"B":"s"},"n":1}]]}}`,
			`{"a":{"args":["-a",1.50],"hops":[{"env":{"A":"••••"}},[{"Headers":{"B":"••••"},"n":1}]]}}`},
		{`{"a":{"url":"https://me:s@x.example:8/p@1?key=s&n&e=#f"}}`,
			`{"a":{"url":"https://••••@x.example:8/p@1?key=••••&••••&e=#••••"}}`},
		{`{"a":{"url":"https://x/#access_token=s","args":["--url=https://x/p#s&t"]}}`,
			`{"a":{"url":"https://x/#••••","args":["--url=https://x/p#••••"]}}`},
		{`{"a":{"args":["-u","me:s","-ume:s","--user=me:s","--proxy-user","me:s","-u","server.py","-U","me"]}}`,
			`{"a":{"args":["-u","••••","-u••••","--user=••••","--proxy-user","••••","-u","server.py","-U","me"]}}`},
		{`{"a":{"args":["--header","Authorization: Bearer s","-HX-Auth: s","Authorization: s","X-Api-Key:s","Bearer",` +
			`"s","bearer s","Accept: text/plain"]}}`,
			`{"a":{"args":["--header","••••","-HX-Auth:••••","Authorization:••••","X-Api-Key:••••","Bearer",` +
				`"••••","bearer ••••","Accept: text/plain"]}}`},
		{`{"a":{"args":["me:s@db:5432/x","--dsn=me:s@tcp(db)/x","git@host:x","@scope/pkg@1.2","x:8"]}}`,
			`{"a":{"args":["••••@db:5432/x","--dsn=••••@tcp(db)/x","git@host:x","@scope/pkg@1.2","x:8"]}}`},
		{`{"a":{"command":"curl -u me:s https://x","other":"curl --header 'Authorization: s' x",` +
			`"cmd":"curl 'Cookie: s' x"}}`,
			`{"a":{"command":"curl -u ••••","other":"curl --header ••••","cmd":"curl 'Cookie:••••"}}`},
		{`{"a":{"credentials":{"user":"me","value":"s","more":{"list":["s"],"n":1,"x":"s"},"port":8}}}`,
			`{"a":{"credentials":{"user":"••••","value":"••••","more":{"list":"••••","n":1,"x":"••••"},"port":8}}}`},
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
		{`{"q\"":{"env":{"<&>":"s"}}}`, `{"q\"":{"env":{"<&>":"••••"}}}`},
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

// TestMaskingTakesLinearTime: text that is made of blanks, words or flags is read once.
func TestMaskingTakesLinearTime(t *testing.T) {
	for _, unit := range []string{" ", "a ", "--port ", "a=b ", "https://x "} {
		text := strings.Repeat(unit, 1<<18/len(unit))
		began := time.Now()
		Blueprint{MCPServers: []byte(`{"a":{"command":"` + text + `"}}`)}.Masked()
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("256 KiB of %q took %s, want at most 20s", unit, took)
		}
	}
}

func TestMaskedAt(t *testing.T) {
	for servers, want := range map[string]string{
		``: "", `{}`: "", `{"a":{"url":"https://x","args":["-v",1,null,{}]}}`: "",
		`{"a":{"env":{"A":"x","KEY":"••••"}}}`:               "mcp_servers.a.env.KEY",
		`{"a":{},"b":{"args":["x","--dsn=••••@db"]}}`:        "mcp_servers.b.args[1]",
		`{"a":{"url":"https://\u2022\u2022\u2022\u2022@x"}}`: "mcp_servers.a.url",
	} {
		if got := MaskedAt([]byte(servers)); got != want {
			t.Errorf("%s: %q, want %q", servers, got, want)
		}
	}
}
