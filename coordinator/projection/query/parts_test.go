package query

import (
	"encoding/json"
	"testing"

	"ao/coordinator/projection"
	"ao/coordinator/projection/follow"
	"ao/coordinator/projection/state"
	"ao/nats/bus"
)

// allParts is all parts in one, for tests that use many.
type allParts struct {
	*projection.Projection
	*Index
	*ActiveRuns
	*Worklist
	*projection.Overlay
	*Reader
	*Lists
	*Feed
	*follow.Follower
}

func joined(b *bus.Bus, cfg projection.Config) *allParts { return joinedIn("", b, cfg) }

// joinedIn keeps checkpoints in a folder.
func joinedIn(dir string, b *bus.Bus, cfg projection.Config) *allParts {
	p := projection.New(cfg)
	w := follow.New(p, b, dir, cfg.Log)
	q := New(p, b, w, cfg.Key)
	return &allParts{p, q.Index, q.ActiveRuns, q.Worklist, projection.NewOverlay(p), q.Reader, q.Lists, q.Feed, w}
}

// seen is all that readers see.
func seen(t testing.TB, j *allParts) string {
	t.Helper()
	runs, err := j.Runs(t.Context(), Query{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	sessions, err := j.Sessions(t.Context(), Query{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.MarshalIndent([]any{runs, sessions}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// reloaded is a state as a start from its checkpoint makes it.
func reloaded(t testing.TB, f *state.State) *state.State {
	t.Helper()
	c, l := state.StartSaving(f), state.NewLoader(nil)
	for p := (state.Part{}); ; {
		more, err := c.Next(f, &p, 100)
		if err == nil && more {
			_, err = l.Add(encoded(t, p))
		}
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			break
		}
	}
	last, texts, err := c.Last(f)
	if err != nil {
		t.Fatal(err)
	}
	last.Texts = texts
	again, err := l.Add(encoded(t, last))
	if err != nil {
		t.Fatal(err)
	}
	return again
}

func encoded(t testing.TB, p state.Part) *state.Part {
	t.Helper()
	if err := p.EncodeSpecs(); err != nil {
		t.Fatal(err)
	}
	return &p
}
