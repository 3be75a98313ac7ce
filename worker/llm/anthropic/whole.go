package anthropic

import (
	"encoding/json"

	"ao/worker/llm/chat"
	"ao/worker/llm/endpoint"
)

// whole takes an answer that did not come as a stream.
func (a *answer) whole(raw string) error {
	var m struct {
		Model   string `json:"model"`
		Stop    string `json:"stop_reason"`
		Content []struct {
			Type      string          `json:"type"`
			ID        string          `json:"id"`
			Name      string          `json:"name"`
			Text      string          `json:"text"`
			Input     json.RawMessage `json:"input"`
			Thinking  string          `json:"thinking"`
			Signature string          `json:"signature"`
			Data      string          `json:"data"`
		} `json:"content"`
		Usage struct {
			Input      int64 `json:"input_tokens"`
			Output     int64 `json:"output_tokens"`
			CacheRead  int64 `json:"cache_read_input_tokens"`
			CacheWrite int64 `json:"cache_creation_input_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal([]byte(raw), &m); err != nil {
		return &endpoint.Broken{Why: "the answer cannot be read: " + endpoint.Quote(err.Error())}
	}
	a.model, a.stop, a.usage = m.Model, m.Stop, chat.Usage{Input: m.Usage.Input, Output: m.Usage.Output, CacheRead: m.Usage.CacheRead, CacheWrite: m.Usage.CacheWrite}
	for _, c := range m.Content {
		b := &block{kind: c.Type, id: c.ID, name: c.Name, signature: c.Signature, data: c.Data}
		a.blocks = append(a.blocks, b)
		b.text.Write(c.Input)
		b.text.WriteString(c.Thinking)
		if a.size += b.text.Len(); a.size > chat.MaxInput || len(a.blocks) > chat.MaxCalls {
			return &endpoint.Broken{Why: "the model's tool calls have no end"}
		}
		if c.Text != "" {
			if err := a.hear(b, c.Text); err != nil {
				return err
			}
			a.listener.End()
		}
	}
	a.stopped = true
	return nil
}
