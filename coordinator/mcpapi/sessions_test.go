package mcpapi

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
)

type store = Schemas

// countedSchemas counts the schemas that are embedded.
type countedSchemas struct {
	store
	n int
}

func (c *countedSchemas) Embed(_ context.Context, raw json.RawMessage) (json.RawMessage, error) {
	c.n++
	if string(raw) == "false" {
		return nil, errors.New("not now")
	}
	return json.RawMessage(`{"whole":` + string(raw) + `}`), nil
}

// TestEachSchemaIsEmbeddedOnce for a list of agents, also one that cannot be had.
func TestEachSchemaIsEmbeddedOnce(t *testing.T) {
	c := &countedSchemas{}
	embed := (&API{cfg: Config{Schemas: c}}).embedded(t.Context())
	for range 3 {
		for raw, want := range map[string]string{"true": `{"whole":true}`, "false": "false"} {
			if got := embed(json.RawMessage(raw)); string(got) != want {
				t.Errorf("%s: got %s, want %s", raw, got, want)
			}
		}
	}
	if c.n != 2 {
		t.Errorf("%d schemas were embedded, want 2", c.n)
	}
}
