package browser

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// recorded is what the pictures of the documents show: a recording, so that they are the same each time.
const recorded = "testdata/pictures.json.gz"

// recording is what a stack answered to pages, with times and names that are nobody's.
type recording struct {
	Pages   []shot              `json:"pages"`
	Answers map[string][]answer `json:"answers"` // by page, method, address and body, in their order
}

// shot is a page, and how its picture is taken.
type shot struct{ Name, Path, Theme string }

// answer is an answer of the API.
type answer struct {
	Status   int    `json:"status"`
	Type     string `json:"type,omitempty"`
	ETag     string `json:"etag,omitempty"`
	Position string `json:"position,omitempty"`
	Body     string `json:"body,omitempty"`
}

// recorder passes requests on to a stack and keeps what it answers, or answers with that. The dashboard's own files
// always come from a stack.
type recorder struct {
	stack *httputil.ReverseProxy
	plays bool

	mu sync.Mutex
	recording
	page   string
	played map[string]int
}

// usual is the address of the pictures: a coordinator's own where nobody says another.
const usual = "127.0.0.1:8765"

// behind is an address that has the recorder before the stack.
func (r *recorder) behind(t *testing.T, s *stack) *stack {
	t.Helper()
	to, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	r.stack = &httputil.ReverseProxy{
		FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to); p.Out.Host = p.In.Host },
	}
	ended, end := context.WithCancel(context.Background())
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		ctx, cancel := context.WithCancel(q.Context())
		defer cancel()
		defer context.AfterFunc(ended, cancel)()
		r.ServeHTTP(w, q.WithContext(ctx))
	}))
	if r.plays {
		l, err := net.Listen("tcp", usual)
		if err != nil {
			t.Fatalf("pages show their address: %v", err)
		}
		server.Listener.Close()
		server.Listener = l
	}
	server.Start()
	t.Cleanup(func() { end(); server.CloseClientConnections(); server.Close() })
	return &stack{url: server.URL}
}

// show begins another page: what was played is played from its beginning.
func (r *recorder) show(page string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.page, r.played = page, map[string]int{}
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return
	}
	q.Body = io.NopCloser(bytes.NewReader(body))
	key := fmt.Sprintf("%s %s %s %s", r.page, q.Method, q.URL.RequestURI(), body)
	switch {
	case strings.HasPrefix(q.URL.Path, "/ui/"), strings.HasPrefix(q.URL.Path, "/sse/") && !r.plays:
		r.stack.ServeHTTP(w, q)
	case strings.HasPrefix(q.URL.Path, "/sse/"):
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, ": nothing changes\n\n")
		_ = http.NewResponseController(w).Flush()
		<-q.Context().Done()
	case r.plays:
		r.play(w, q, key)
	default:
		r.record(w, q, key)
	}
}

func (r *recorder) record(w http.ResponseWriter, q *http.Request, key string) {
	q.Header.Del("Accept-Encoding")
	got := httptest.NewRecorder()
	r.stack.ServeHTTP(got, q)
	h := got.Header()
	r.mu.Lock()
	r.Answers[key] = append(r.Answers[key], answer{
		got.Code, h.Get("Content-Type"), h.Get("ETag"), h.Get("Ao-Position"), got.Body.String(),
	})
	r.mu.Unlock()
	for name, values := range h {
		w.Header()[name] = values
	}
	w.WriteHeader(got.Code)
	_, _ = w.Write(got.Body.Bytes())
}

// play gives the next answer that was recorded. Behind the last of several nothing changes any more: the page waits.
func (r *recorder) play(w http.ResponseWriter, q *http.Request, key string) {
	r.mu.Lock()
	all, n := r.Answers[key], r.played[key]
	r.played[key]++
	r.mu.Unlock()
	switch {
	case len(all) == 0:
		http.Error(w, "nothing was recorded for "+key+": record the pictures anew", http.StatusNotFound)
		return
	case len(all) > 1 && n >= len(all):
		<-q.Context().Done()
		return
	}
	a := all[min(n, len(all)-1)]
	h := w.Header()
	h.Set("Date", shownAt.Format(http.TimeFormat))
	for name, v := range map[string]string{"Content-Type": a.Type, "ETag": a.ETag, "Ao-Position": a.Position} {
		if v != "" {
			h.Set(name, v)
		}
	}
	w.WriteHeader(a.Status)
	_, _ = io.WriteString(w, a.Body)
}

// left is how many answers of an address are yet to be played.
func (r *recorder) left(address string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := fmt.Sprintf("%s GET %s ", r.page, address)
	return max(0, len(r.Answers[key])-r.played[key])
}

// shownAt is the time of the pictures.
var shownAt = time.Date(2026, time.November, 24, 14, 32, 10, 0, time.UTC)

var (
	ofThisDisk = regexp.MustCompile(`\{"check":"disk"[^{}]*\},?`)
	moments    = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z`)
	directives = regexp.MustCompile(`\\n@(?:[^"\\]|\\.)*`) // of the profile test, at the end of a prompt
)

// made takes out of the answers what is of this machine and this hour. What happened in the last two minutes keeps its
// distances; what was before becomes slower, as models are.
func (r *recording) made(last time.Time, names *strings.Replacer) {
	const plain, slower = 2 * time.Minute, 40
	shift := func(text string) string {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return text
		}
		ago := last.Sub(at)
		if ago > plain {
			ago = plain + slower*(ago-plain)
		}
		return shownAt.Add(-ago).Format(time.RFC3339Nano)
	}
	for _, all := range r.Answers {
		for i := range all {
			body := ofThisDisk.ReplaceAllString(all[i].Body, "")
			body = directives.ReplaceAllString(names.Replace(body), "")
			all[i].Body = moments.ReplaceAllStringFunc(body, shift)
		}
	}
}

func (r *recording) write(t *testing.T) {
	t.Helper()
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(recorded), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(recorded, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readRecording(t *testing.T) (r recording) {
	t.Helper()
	f, err := os.Open(recorded)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(z).Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r
}
