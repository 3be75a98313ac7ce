package e2e

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ao/nats/natstest"
)

// TestGreedyCallerLeavesOthersTheirShare: one caller uses up each limited resource. Other callers still get their
// share. No other story runs beside the floods: what they leave to others is not measured on what is left by those.
func TestGreedyCallerLeavesOthersTheirShare(t *testing.T) {
	b := newSecurityStack(t, "AO_BODY_MEMORY=64MiB", "AO_MAX_CONNECTIONS=1500", "AO_MAX_DEPTH=8", "AO_MAX_QUEUES=40")
	for _, flood := range []struct {
		name, who string
		takes     func(b *securityStack, who string) (release func())
	}{
		{"slow bodies", "read", (*securityStack).slowBodies},
		{"idle connections", "nobody", (*securityStack).idleConnections},
		{"live streams", "read", (*securityStack).liveStreams},
		{"queues", "run", (*securityStack).tagSubsets},
		{"an agent that starts itself", "run", (*securityStack).startsItself},
		{"what no client sends", "read", (*securityStack).oddRequests},
	} {
		b.row(flood.name, func(b *securityStack) {
			release := flood.takes(b, flood.who)
			b.checkHealthy(flood.name)
			release()
		})
	}
	b.checkLateWorkers()
	b.checkAtEnd()
}

// address returns the address of the coordinator's HTTP API.
func (b *securityStack) address() string { return strings.TrimPrefix(b.url, "http://") }

// slowBodies starts more requests with bodies of 16 MiB than AO_BODY_MEMORY has room for, sends most of each and waits.
func (b *securityStack) slowBodies(who string) (release func()) {
	part := make([]byte, 12<<20)
	for i := range part {
		part[i] = ' '
	}
	var wg sync.WaitGroup
	var open []net.Conn
	for range natstest.Load(20, 60) {
		c, err := net.Dial("tcp", b.address())
		if err != nil {
			b.t.Fatal(err)
		}
		open = append(open, c)
		wg.Go(func() {
			c.SetWriteDeadline(time.Now().Add(10 * time.Second)) // whom it does not read any more
			fmt.Fprintf(c, "POST /runs/validate HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: "+
				"application/json\r\nContent-Length: %d\r\n\r\n", b.address(), b.tokens[who], 16<<20)
			c.Write(part)
		})
	}
	wg.Wait()
	return func() {
		for _, c := range open {
			c.Close()
		}
	}
}

// idleConnections opens more connections than AO_MAX_CONNECTIONS, or as many as this process may, and sends nothing.
func (b *securityStack) idleConnections(string) (release func()) {
	var open []net.Conn
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		b.t.Fatal(err)
	}
	for range min(uint64(natstest.Load(2_000, 20_000)), files.Cur*9/10) {
		c, err := net.DialTimeout("tcp", b.address(), 5*time.Second)
		if err != nil {
			break // no more are let in
		}
		open = append(open, c)
	}
	if r := b.as("nobody", "GET", "/health", ""); r.code != 200 {
		b.t.Errorf("with %d idle connections GET /health is %d %v", len(open), r.code, r.err)
	}
	return func() {
		for _, c := range open {
			c.Close()
		}
	}
}

// liveStreams opens as many as possible. Another token still gets twenty.
func (b *securityStack) liveStreams(who string) (release func()) {
	var open []io.Closer
	listen := func(who string) int {
		req, err := http.NewRequest("GET", b.url+"/sse/sessions", nil)
		if err != nil {
			b.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+b.tokens[who])
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			b.t.Fatal(err)
		}
		open = append(open, res.Body)
		return res.StatusCode
	}
	got := 0
	for listen(who) == 200 {
		if got++; got > 1000 {
			b.t.Fatal("there is no end of live streams")
		}
	}
	for i := range 20 {
		if code := listen("run"); code != 200 {
			b.t.Errorf("with %d streams of one token, stream %d of another is %d", got, i+1, code)
			break
		}
	}
	return func() {
		for _, body := range open {
			body.Close()
		}
	}
}

// tagSubsets starts runs with subsets of the honest runner's tags, each with its own queue.
func (b *securityStack) tagSubsets(who string) (release func()) {
	for set := 1; set < 1<<natstest.Load(6, len(honestTags)); set++ { // more sets than AO_MAX_QUEUES
		var tags []string
		for i, tag := range honestTags {
			if set&(1<<i) != 0 {
				tags = append(tags, `"`+tag+`"`)
			}
		}
		r := b.as(who, "POST", "/runs", `{"agent_name":"echo","parameters":{"word":"x"},"additional_demands":{"tags":[`+
			strings.Join(tags, ",")+`]}}`)
		if r.code != 201 && r.code != 429 && r.code != 503 {
			b.t.Errorf("set %d: %d %s", set, r.code, r.text)
		}
	}
	b.checkLateWorkers()
	return func() {}
}

// startsItself runs an agent that starts itself recursively.
func (b *securityStack) startsItself(who string) (release func()) {
	b.write("profiles/mind.json", `{"type":"autonomous","command":"ao-test-exec","max_concurrent_runs":8}`)
	mind := b.runner("mind", append(as(b.ring, b.nats, "worker-mind"), "AO_PROFILES=mind")...)
	b.online("mind")
	b.has(b.post("/agents", `{"name":"again","executor_profile":"mind"}`), 201)
	r := b.as(who, "POST", "/runs", `{"agent_name":"again","parameters":`+
		promptParams(strings.Repeat("@child again async_poll ", 40)+"@say I am the last")+`}`)
	b.has(r, 201)
	b.until("one of them is refused its child", func() bool { return b.runs("agent_name=again&status=failed") == 1 })
	b.has(b.get("/runs?agent_name=again&status=failed"), 200, "too_deep")
	if n := b.runs("agent_name=again"); n > 9 {
		b.t.Errorf("an agent that starts itself went %d deep, and AO_MAX_DEPTH is 8", n)
	}
	return mind.stop
}

// oddRequests are refused with JSON errors like all others.
func (b *securityStack) oddRequests(who string) (release func()) {
	head := "\r\nHost: " + b.address() + "\r\nAuthorization: Bearer " + b.tokens[who] + "\r\nConnection: close\r\n"
	for _, text := range []string{
		"GET /% HTTP/1.1" + head + "\r\n",
		"GET /runs/%00 HTTP/1.1" + head + "\r\n",
		"GET /runs/..%2f..%2fetc%2fpasswd HTTP/1.1" + head + "\r\n",
		"GET /runs?limit=99999999999999999999 HTTP/1.1" + head + "\r\n",
		"GET /sse/sessions HTTP/1.1" + head + "Sec-Fetch-Site: cross-site\r\n\r\n",
		"GET /runs HTTP/1.1" + head + "Origin: https://evil.example\r\n\r\n",
		"GET /runs HTTP/1.1" + strings.Replace(head, b.address(), "evil.example", 1) + "\r\n",
		"POST /mcp HTTP/1.1" + head + "Content-Length: 1\r\n\r\n{",
		"POST /mcp HTTP/1.1" + head +
			"Content-Type: application/json\r\nAccept: text/html\r\nContent-Length: 2\r\n\r\n{}",
		"BREW /runs HTTP/1.1" + head + "\r\n",
		"POST /runs HTTP/1.1" + head + "Content-Length: -1\r\n\r\n",
		"POST /runs HTTP/1.1" + head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
		"GET /runs HTTP/1.1" + head + "X: " + strings.Repeat("x", 200_000) + "\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01",
		"CONNECT evil.example:443 HTTP/1.1" + head + "\r\n",
	} {
		c, err := net.Dial("tcp", b.address())
		if err != nil {
			b.t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(30 * time.Second))
		io.WriteString(c, text) // it may hang up before it has read all
		if text[0] == '\x16' {
			c.(*net.TCPConn).CloseWrite()
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			if text[0] != '\x16' && len(text) < 100_000 {
				b.t.Errorf("%.60q: %v", text, err)
			}
			c.Close()
			continue
		}
		body, err := io.ReadAll(res.Body)
		if r := (reply{text: string(body)}); err != nil || res.StatusCode/100 != 4 && res.StatusCode/100 != 5 ||
			res.StatusCode == 500 || r.at("error") == "" {
			b.t.Errorf("%.60q: %d %.300s %v", text, res.StatusCode, body, err)
		}
		c.Close()
	}
	if c, err := tls.Dial("tcp", b.address(), &tls.Config{InsecureSkipVerify: true}); err == nil {
		c.Close()
		b.t.Error("plain HTTP speaks TLS")
	}
	return func() {}
}
