package connection

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	client "ao/shared/clients/go"
)

func TestNew(t *testing.T) {
	for _, tt := range []struct{ url, want string }{
		{"", client.DefaultURL}, {"localhost:8765", "http://localhost:8765"}, {"https://x.org/ao/", "https://x.org/ao"},
		{"ftp://x", ""}, {"http://", ""}, {"http://x?a=b", ""}, {"http://x:port", ""}, {"http://[", ""},
	} {
		c, err := New(Config{URL: tt.url})
		if tt.want == "" {
			if err == nil || !strings.Contains(err.Error(), "AO_URL") {
				t.Errorf("%q: got %v", tt.url, err)
			}
			continue
		}
		if err != nil || c.URL() != tt.want {
			t.Errorf("%q: got %v, want %q", tt.url, err, tt.want)
		}
	}
}

// TestNotice: a person reads for how long there are more retries.
func TestNotice(t *testing.T) {
	away := &client.APIError{Status: 503, Message: "NATS is away"}
	for _, tt := range []struct {
		of   client.Outage
		want string
	}{
		{client.Outage{Err: away, Left: 5 * time.Minute}, "NATS is away; retrying for up to 5m0s"},
		{client.Outage{Err: away, Age: 30_400 * time.Millisecond, Left: 269_600 * time.Millisecond},
			"NATS is away; still retrying, for another 4m30s"},
		{client.Outage{Err: away, Age: 299_800 * time.Millisecond}, "still failing after 5m0s; giving up"},
	} {
		got := ""
		Notice(func(s string) { got = s })(tt.of)
		if got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// TestErrors are said in plain words, and have a reason.
func TestErrors(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/half":
			_, _ = io.WriteString(w, "{")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "/404":
			w.WriteHeader(404)
		default:
			w.WriteHeader(400)
			_, _ = io.WriteString(w, `{"error":"invalid_request","message":"no"}`)
		}
	}))
	t.Cleanup(s.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + l.Addr().String()
	_ = l.Close()
	for _, tt := range []struct {
		url, path string
		reason    client.Reason
		refused   bool
		want      string
	}{
		{nobody, "runs", client.NotConnected, false, "no coordinator answers at " + nobody + ": nothing listens there"},
		{s.URL, "half", client.Lost, false, "connection to " + s.URL + " lost before the answer was complete: it " +
			"ended too early"},
		{s.URL, "404", client.Foreign, false, s.URL + ` answered 404, but not as a coordinator does (no content ` +
			`type: ""); check that the address is a coordinator's`},
		{s.URL, "runs", "", true, "no"},
	} {
		c, err := New(Config{URL: tt.url})
		if err != nil {
			t.Fatal(err)
		}
		if tt.reason != client.NotConnected { // what nobody has ever answered is not retried
			c = c.Once()
		}
		_, err = c.Read(t.Context(), nil, tt.path)
		if _, refused := Refusal(err); Reason(err) != tt.reason || refused != tt.refused || err.Error() != tt.want {
			t.Errorf("%s: got %q %v %v", tt.path, Reason(err), refused, err)
		}
	}
}

// TestNoToken: the token of the environment goes to no server that it was not given for.
func TestNoToken(t *testing.T) {
	t.Setenv("AO_TOKEN", "aot_secret")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%q", r.Header.Get("Authorization"))
	}))
	t.Cleanup(s.Close)
	for token, want := range map[string]string{"": `""`, "aot_given": `"Bearer aot_given"`} {
		c, err := New(Config{URL: s.URL, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		if doc, err := c.Read(t.Context(), nil, "runs"); err != nil || string(doc) != want {
			t.Errorf("got %s, %v, want %s", doc, err, want)
		}
	}
}

// TestTraceOfTheEnvironmentIsForwarded: ao in a script, or in an executor, continues the trace of its environment. An
// invalid one is omitted.
func TestTraceOfTheEnvironmentIsForwarded(t *testing.T) {
	var got string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Traceparent") + " " + r.Header.Get("Tracestate")
		fmt.Fprint(w, `{}`)
	}))
	t.Cleanup(s.Close)
	c, err := New(Config{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, tt := range []struct{ parent, state, want string }{
		{"", "", " "}, {parent, "", parent + " "}, {parent, "a=1", parent + " a=1"}, {"x\ny", "a=1", " "},
	} {
		t.Setenv("TRACEPARENT", tt.parent)
		t.Setenv("TRACESTATE", tt.state)
		if _, err := c.Read(t.Context(), nil, "runs"); err != nil || got != tt.want {
			t.Errorf("%q %q: got %q, %v", tt.parent, tt.state, got, err)
		}
	}
}

// TestTLS: a server is trusted if AO_CA has its authority. Otherwise the error says what to do, and there is no retry.
func TestTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"status":"ready"}`)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	plain := httptest.NewServer(s.Config.Handler)
	t.Cleanup(plain.Close)
	dir := t.TempDir()
	ca, other := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "other")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ url, ca, say string }{
		{s.URL, ca, ""},
		{plain.URL, ca, ""},
		{s.URL, "", "is not trusted: its certificate is not trusted here: name the authority that signed it in AO_CA"},
		{strings.Replace(s.URL, "127.0.0.1", "localhost", 1), ca, "is for another name"},
		{strings.Replace(plain.URL, "http:", "https:", 1), ca, "it does not speak TLS: use http://"},
		{strings.Replace(s.URL, "https:", "http:", 1), ca, "uses TLS: write https://"},
		{s.URL, other, `AO_CA "` + other + `" contains no certificate`},
		{s.URL, filepath.Join(dir, "none"), "cannot be read"},
	} {
		c, err := New(Config{URL: tt.url, CA: tt.ca})
		if err == nil {
			_, err = c.Read(t.Context(), nil, "ready")
		}
		switch {
		case tt.say == "" && err != nil, tt.say != "" && (err == nil || !strings.Contains(err.Error(), tt.say)):
			t.Errorf("%s with %q: %v, want %q", tt.url, tt.ca, err, tt.say)
		case err != nil && client.Temporary(err):
			t.Errorf("%v is said to pass", err)
		}
	}
}
