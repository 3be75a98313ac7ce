package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		// nothing is delivered over a proxy of the environment
		if err := os.Setenv(name, "http://127.0.0.1:9"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

var loopback = Policy{Hosts: []string{"*"}, Networks: prefixes("127.0.0.1/32"), Secret: secret}

// receiver is a server on an address of this machine; it counts connections too.
func receiver(t *testing.T, addr string, h http.HandlerFunc) (*httptest.Server, *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	var conns atomic.Int32
	s := httptest.NewUnstartedServer(h)
	_ = s.Listener.Close()
	s.Listener = l
	s.Config.ConnState = func(_ net.Conn, to http.ConnState) {
		if to == http.StateNew {
			conns.Add(1)
		}
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	return s, &conns
}

// plainReceiver speaks http on 127.0.0.1.
func plainReceiver(t *testing.T, h http.HandlerFunc) (url string, conns *atomic.Int32) {
	t.Helper()
	s, conns := receiver(t, "127.0.0.1:0", h)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL, conns
}

func client(t *testing.T, c Config) *Client {
	t.Helper()
	cl, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

var at = time.Unix(1614265330, 999)

func TestDelivered(t *testing.T) {
	body := []byte(`{"test": 2432232314}`)
	other := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32))
	got := make(chan *http.Request, 1)
	var read []byte
	url, _ := plainReceiver(t, func(w http.ResponseWriter, r *http.Request) {
		read, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusNoContent)
		got <- r
	})
	policy := loopback
	policy.Secret += " " + other
	a := client(t, Config{Policy: policy}).Deliver(t.Context(), url+"/a?b=c", "msg_p5jXN8AQM9LWM0D4loKWxJek", at, body)
	if a != (Attempt{Status: 204, Delivered: true}) {
		t.Fatalf("got %+v", a)
	}
	r := <-got
	if r.Method != "POST" || r.RequestURI != "/a?b=c" || string(read) != string(body) ||
		r.Header.Get("Content-Type") != "application/json" ||
		r.ContentLength != int64(len(body)) {
		t.Errorf("got %s %s %q %v", r.Method, r.RequestURI, read, r.Header)
	}
	h := hmac.New(sha256.New, make([]byte, 32))
	_, _ = fmt.Fprintf(h, "%s.%s.%s", r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp"), read)
	// The first one is the example of the specification's own libraries.
	want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
	if s := r.Header.Get("webhook-signature"); s != want || r.Header.Get("webhook-timestamp") != "1614265330" {
		t.Errorf("signed %q, want %q", s, want)
	}
}

func TestResponses(t *testing.T) {
	for _, tt := range []struct {
		status int
		want   Attempt
	}{
		{200, Attempt{Status: 200, Delivered: true}},
		{299, Attempt{Status: 299, Delivered: true}},
		{302, Attempt{Status: 302,
			Reason: "127.0.0.1 answered 302, a redirect; callbacks follow none, give the address that it leads to"}},
		{307, Attempt{Status: 307,
			Reason: "127.0.0.1 answered 307, a redirect; callbacks follow none, give the address that it leads to"}},
		{404, Attempt{Status: 404, Reason: "127.0.0.1 answered 404 Not Found"}},
		{410, Attempt{Status: 410, Permanent: true, Reason: "127.0.0.1 answered 410 Gone: it accepts no more " +
			"callbacks"}},
		{503, Attempt{Status: 503, Reason: "127.0.0.1 answered 503 Service Unavailable"}},
	} {
		t.Run(http.StatusText(tt.status), func(t *testing.T) {
			var elsewhere atomic.Int32
			url, _ := plainReceiver(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/" {
					elsewhere.Add(1)
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, "secret words")
			})
			if a := client(t, Config{Policy: loopback}).Deliver(t.Context(), url, "id", at, nil); a != tt.want {
				t.Errorf("got %+v, want %+v", a, tt.want)
			}
			if elsewhere.Load() > 0 {
				t.Error("the redirect was followed")
			}
		})
	}
}

func TestWithoutItsNetworkAPrivateAddressIsNotReached(t *testing.T) {
	s, conns := receiver(t, "127.0.0.1:0", func(http.ResponseWriter, *http.Request) {})
	s.StartTLS()
	t.Cleanup(s.Close)
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	names := dns(t, "127.0.0.1")
	c := client(t, Config{Policy: Policy{Hosts: []string{"*"}, Secret: secret}, Resolver: names.resolver})
	for _, url := range []string{s.URL, "https://example.com:" + port, "https://localhost:" + port} {
		a := c.Deliver(t.Context(), url, "id", at, nil)
		if a.Delivered || a.Permanent || a.Status != 0 ||
			!strings.Contains(a.Reason, "public") && !strings.Contains(a.Reason, "own machine") ||
			url != s.URL && strings.Contains(a.Reason, "127.") {
			t.Errorf("%s: got %+v", url, a)
		}
	}
	if conns.Load() != 0 {
		t.Errorf("%d connections came", conns.Load())
	}
}

func TestTLSByName(t *testing.T) {
	s, _ := receiver(t, "127.0.0.1:0", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(200) })
	s.StartTLS()
	t.Cleanup(s.Close)
	old, _ := receiver(t, "127.0.0.1:0", func(http.ResponseWriter, *http.Request) {})
	old.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	old.StartTLS()
	t.Cleanup(old.Close)
	bare, _ := plainReceiver(t, func(http.ResponseWriter, *http.Request) {})
	port := func(url string) string { return url[strings.LastIndex(url, ":"):] }

	names := dns(t, "127.0.0.1")
	trusting := Config{
		Policy:   loopback,
		Resolver: names.resolver,
		Roots:    s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs,
	}
	wary := Config{Policy: loopback, Resolver: names.resolver}
	for _, tt := range []struct {
		config Config
		url    string
		want   string
	}{
		{trusting, "https://example.com" + port(s.URL), ""},
		{trusting, "https://other.test" + port(s.URL), "The certificate of other.test is for another name"},
		{wary, "https://example.com" + port(s.URL), "The certificate of example.com is signed by an unknown authority"},
		{trusting, "https://example.com" + port(old.URL),
			"example.com and the coordinator have no TLS version or cipher in common"},
		{trusting, "https://example.com" + port(bare), "example.com does not speak TLS at that port"},
	} {
		if a := client(t, tt.config).Deliver(t.Context(), tt.url, "id", at, nil); a.Reason != tt.want ||
			a.Delivered != (tt.want == "") {
			t.Errorf("%s: got %+v, want %q", tt.url, a, tt.want)
		}
	}
}

func TestDNSRebinding(t *testing.T) {
	s, conns := receiver(t, "127.0.0.1:0", func(http.ResponseWriter, *http.Request) {})
	s.Start()
	t.Cleanup(s.Close)
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	free := Policy{
		Hosts:    []string{"*"},
		Networks: prefixes("127.0.0.2/32"),
		Secret:   secret,
	} // 127.0.0.2 stands for what may be reached

	names := dns(t, "127.0.0.2", "127.0.0.1")
	c := client(t, Config{Policy: free, Resolver: names.resolver})
	if a := c.Deliver(t.Context(), "http://rebind.test:"+port, "id", at,
		nil); a.Reason != "rebind.test refused the connection" {
		t.Errorf("the address that was looked at was not the one that was dialled: %+v", a)
	}
	if n := names.asked.Load(); n != 1 {
		t.Errorf("the name was looked up %d times for one delivery", n)
	}
	if a := c.Deliver(t.Context(), "http://rebind.test:"+port, "id", at, nil); !strings.Contains(
		a.Reason,
		"AO_CALLBACK_NETWORKS",
	) {
		t.Errorf("the second time: %+v", a)
	}
	if conns.Load() != 0 {
		t.Errorf("%d connections came", conns.Load())
	}
}

func TestOneForbiddenAddressRefusesAName(t *testing.T) {
	s, conns := receiver(t, "127.0.0.1:0", func(http.ResponseWriter, *http.Request) {})
	s.Start()
	t.Cleanup(s.Close)
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	for _, tt := range []struct {
		answer string
		ok     bool
	}{{"127.0.0.1", true}, {"127.0.0.1 10.9.8.7", false}, {"10.9.8.7 127.0.0.1", false},
		{"127.0.0.1 93.184.216.34", false}, {"", false}} {
		a := client(
			t,
			Config{Policy: loopback, Resolver: dns(t, tt.answer).resolver},
		).Deliver(t.Context(), "http://mixed.test:"+port, "id", at, nil)
		if a.Delivered != tt.ok || strings.Contains(a.Reason, "10.") ||
			!tt.ok && !strings.Contains(a.Reason, "mixed.test") {
			t.Errorf("%s: got %+v", tt.answer, a)
		}
	}
	if conns.Load() != 1 {
		t.Errorf("%d connections came", conns.Load())
	}
}

func TestSocketAddressIsChecked(t *testing.T) {
	s, conns := receiver(t, "127.0.0.1:0", func(http.ResponseWriter, *http.Request) {})
	s.Start()
	t.Cleanup(s.Close)
	for _, tt := range []struct {
		allowed func(netip.Addr) bool
		ok      bool
	}{{isPublic, false}, {loopback.allowsPrivate, true}} {
		d := net.Dialer{Control: guard(tt.allowed)}
		_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
		conn, err := d.DialContext(t.Context(), "tcp4", "localhost:"+port) // a name that was not resolved before
		if (err == nil) != tt.ok || !tt.ok && !errors.Is(err, errNotAllowed) {
			t.Errorf("allowed %v: got %v", tt.ok, err)
		}
		if !tt.ok && conns.Load() != 0 {
			t.Error("it was connected")
		}
		if conn != nil {
			_ = conn.Close()
		}
	}
}

func TestASlowReceiver(t *testing.T) {
	end := make(chan struct{})
	url, _ := plainReceiver(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
		}
		<-end
	})
	t.Cleanup(func() { close(end) }) // before the server is closed
	c := client(t, Config{Policy: loopback, Timeout: 50 * time.Millisecond})
	want := Attempt{Reason: "127.0.0.1 did not answer in time (50ms)"}
	if got := c.Deliver(t.Context(), url, "id", at, nil); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	patient := client(t, Config{Policy: loopback, Timeout: time.Hour})
	// and comes back, though the body never ends
	if a := patient.Deliver(t.Context(), url+"/body", "id", at, nil); !a.Delivered {
		t.Errorf("the status had come: %+v", a)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if a := c.Deliver(ctx, url, "id", at, nil); a.Delivered || !strings.Contains(a.Reason, "cancelled the delivery") {
		t.Errorf("got %+v", a)
	}
}

func TestConnectionErrors(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	rude, _ := plainReceiver(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for url, want := range map[string]string{
		"http://" + closed.Addr().String(): "127.0.0.1 refused the connection",
		rude:                               "127.0.0.1 closed the connection without an answer",
	} {
		got := client(t, Config{Policy: loopback}).Deliver(t.Context(), url, "id", at, nil)
		if got != (Attempt{Reason: want}) {
			t.Errorf("got %+v, want %q", got, want)
		}
	}
}

func TestLargeResponseIsNotRead(t *testing.T) {
	var sent atomic.Int64
	done := make(chan struct{})
	url, _ := plainReceiver(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		for range 1 << 10 { // a gigabyte
			n, err := w.Write(make([]byte, 1<<20))
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	want := Attempt{Status: 200, Delivered: true}
	if got := client(t, Config{Policy: loopback}).Deliver(t.Context(), url, "id", at, nil); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	<-done
	if sent.Load() > 64<<20 { // what the system's buffers took
		t.Errorf("%d bytes were taken", sent.Load())
	}
}

// nameServer is a small DNS server that gives its answers in turn, the last one again and again.
type nameServer struct {
	resolver *net.Resolver
	asked    atomic.Int32
}

// dns starts one. Each answer is a list of IPv4 addresses.
func dns(t *testing.T, answers ...string) *nameServer {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{}
	s.resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
	var wg sync.WaitGroup
	wg.Go(func() {
		for buf := make([]byte, 1500); ; {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			if r := s.reply(buf[:n], answers); r != nil {
				_, _ = pc.WriteTo(r, from)
			}
		}
	})
	t.Cleanup(func() {
		_ = pc.Close()
		wg.Wait()
	})
	return s
}

// reply answers a message with one question (RFC 1035 section 4).
func (s *nameServer) reply(msg []byte, answers []string) []byte {
	end := 12
	for end < len(msg) && msg[end] != 0 {
		end += int(msg[end]) + 1
	}
	end += 5 // the name's end, type, class
	if end > len(msg) {
		return nil
	}
	r := append([]byte{msg[0], msg[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, msg[12:end]...)
	if msg[end-3] != 1 { // not A
		return r
	}
	i := min(int(s.asked.Add(1)), len(answers)) - 1
	for a := range strings.FieldsSeq(answers[i]) {
		r[7]++
		r = append(r, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		r = append(r, net.ParseIP(a).To4()...)
	}
	return r
}
