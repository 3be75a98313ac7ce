package agent

import "testing"

// TestMasked: what is below env and headers is hidden, whatever its shape; the rest is as it was.
func TestMasked(t *testing.T) {
	for _, tt := range []struct{ servers, want string }{
		{``, ``},
		{`{}`, `{}`},
		{`{"z":{"command":"x","args":["-a"],"env":{"B":"1","A":"2"}},"a":{"url":"https://x","headers":{"Authorization":"Bearer s"},"n":1.50}}`,
			`{"z":{"command":"x","args":["-a"],"env":{"B":"••••","A":"••••"}},"a":{"url":"https://x","headers":{"Authorization":"••••"},"n":1.50}}`},
		{`{"env":{"command":"x"},"headers":{"url":"y","env":{}}}`, `{"env":{"command":"x"},"headers":{"url":"y","env":{}}}`},
		{`{"a":{"ENV":{"A":{"deep":"s"}},"Headers":["s"],"env":"s"}}`, `{"a":{"ENV":{"A":"••••"},"Headers":"••••","env":"••••"}}`},
		{`{"a":{"transport":{"headers":{"A":"s"},"kind":"http"}}}`, `{"a":{"transport":{"headers":{"A":"••••"},"kind":"http"}}}`},
		{`{"a":{"args":["-a", 1.50],"hops":[{"env":{"A":"s"}},[{"Headers":{"B":"s"},"n":1}]]}}`, `{"a":{"args":["-a",1.50],"hops":[{"env":{"A":"••••"}},[{"Headers":{"B":"••••"},"n":1}]]}}`},
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
