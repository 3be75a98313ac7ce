package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ao/coordinator/access"
	"ao/coordinator/preview"
	"ao/coordinator/rejected"
)

// slowPreviews checks each schema for as long as its caller waits, three seconds at most.
type slowPreviews struct {
	Previews
	running, most, done atomic.Int64
}

func (p *slowPreviews) Schema(ctx context.Context, _ []byte) (preview.SchemaVerdict, error) {
	n := p.running.Add(1)
	defer p.running.Add(-1)
	for most := p.most.Load(); n > most && !p.most.CompareAndSwap(most, n); most = p.most.Load() {
	}
	select {
	case <-time.After(3 * time.Second):
		p.done.Add(1)
		return preview.SchemaVerdict{Valid: true}, nil
	case <-ctx.Done():
		return preview.SchemaVerdict{}, ctx.Err()
	}
}

// validate asks for a verdict with a token.
func validate(ctx context.Context, a *API, token string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/schemas/validate",
		strings.NewReader(`{"schema":{}}`))
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w
}

// TestSchemasAreValidatedAFewAtOnce: others wait for a moment, and a caller that hung up gives its slot back.
func TestSchemasAreValidatedAFewAtOnce(t *testing.T) {
	tokens, mine, others := twoTokens(t)
	synctest.Test(t, func(t *testing.T) {
		p := &slowPreviews{}
		a := New(Config{Previews: p, Positions: nowhere{}, Tokens: tokens})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		refused := atomic.Int64{}
		for range 4 * maxValidations {
			wg.Go(func() {
				if w := validate(t.Context(), a, mine); w.Code != http.StatusOK {
					refused.Add(1)
					if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "5" {
						t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
					}
				}
			})
			wg.Go(func() { validate(ctx, a, others) })
		}
		synctest.Wait()
		if n := p.running.Load(); n != int64(maxValidations) {
			t.Errorf("%d run at once, want %d", n, maxValidations)
		}
		cancel()
		synctest.Wait()
		if n := p.running.Load(); n != int64(maxOwnValidations) {
			t.Errorf("%d of one caller run at once, want %d", n, maxOwnValidations)
		}
		wg.Wait()
		if p.most.Load() != int64(maxValidations) || refused.Load()+p.done.Load() != int64(4*maxValidations) ||
			refused.Load() == 0 {
			t.Errorf("%d at most ran at once, %d were refused, %d answered", p.most.Load(), refused.Load(),
				p.done.Load())
		}
		if w := validate(t.Context(), a, others); w.Code != http.StatusOK {
			t.Errorf("afterwards: %d %s", w.Code, w.Body)
		}
	})
}

// twoTokens makes a file of two read tokens.
func twoTokens(t *testing.T) (tokens *access.Tokens, one, two string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	one, err := access.Create(path, "one", []string{"read"}, time.Time{})
	if err == nil {
		two, err = access.Create(path, "two", []string{"read"}, time.Time{})
	}
	if err == nil {
		tokens, err = access.Load(path, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return tokens, one, two
}

// slowRefusals takes a second to read a page.
type slowRefusals struct{ running, most, done atomic.Int64 }

func (p *slowRefusals) Rejected(context.Context, string, int) (rejected.Page, error) {
	p.most.Store(max(p.most.Load(), p.running.Add(1)))
	<-time.After(time.Second)
	p.running.Add(-1)
	p.done.Add(1)
	return rejected.Page{}, nil
}

// TestRefusedMessagesAreReadOneAtATime: a page may be large. A caller that hung up waits no more.
func TestRefusedMessagesAreReadOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &slowRefusals{}
		a := New(Config{Rejected: p, Positions: nowhere{}})
		ask := func(ctx context.Context) int {
			w := httptest.NewRecorder()
			a.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/rejected", nil))
			return w.Code
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if status := ask(t.Context()); status != http.StatusOK {
					t.Errorf("got %d", status)
				}
			})
		}
		synctest.Wait()
		wg.Go(func() { ask(ctx) })
		synctest.Wait()
		cancel()
		wg.Wait()
		if p.most.Load() != 1 || p.done.Load() != 3 {
			t.Errorf("%d at once, %d in all; want 1 and 3", p.most.Load(), p.done.Load())
		}
	})
}
