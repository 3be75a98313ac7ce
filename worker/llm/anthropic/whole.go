package anthropic

import (
	"cmp"
	"encoding/json"

	"ao/shared/strictjson"
	"ao/worker/llm/chat"
	"ao/worker/llm/endpoint"

	sdk "github.com/anthropics/anthropic-sdk-go"
)

// addWhole adds an answer that was not streamed.
func (a *answer) addWhole(raw string) error {
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
		return &endpoint.BrokenResponse{Reason: "the response is unreadable: " + endpoint.Quote(err.Error())}
	}
	a.model, a.stop, a.usage = m.Model, m.Stop, chat.Usage{Input: m.Usage.Input, Output: m.Usage.Output,
		CacheRead: m.Usage.CacheRead, CacheWrite: m.Usage.CacheWrite}
	for _, c := range m.Content {
		b := &block{kind: c.Type, id: c.ID, name: c.Name, signature: c.Signature, data: c.Data}
		a.blocks = append(a.blocks, b)
		b.text.Write(c.Input)
		b.text.WriteString(c.Thinking)
		a.size += b.text.Len()
		if a.size > chat.MaxInput || len(a.blocks) > chat.MaxCalls {
			return &endpoint.BrokenResponse{Reason: "the model's tool calls are too long"}
		}
		if c.Text != "" {
			if err := a.appendText(b, c.Text); err != nil {
				return err
			}
			a.listener.End()
		}
	}
	a.stopped = true
	return nil
}

func (a *answer) add(e sdk.MessageStreamEventUnion) error {
	switch e.Type {
	case "message_start":
		a.model = e.Message.Model
		u := e.Message.Usage
		a.usage = chat.Usage{Input: u.InputTokens, Output: u.OutputTokens, CacheRead: u.CacheReadInputTokens,
			CacheWrite: u.CacheCreationInputTokens}
	case "content_block_start":
		return a.startBlock(e.ContentBlock)
	case "content_block_delta":
		if e.Index < 0 || int(e.Index) >= len(a.blocks) {
			return &endpoint.BrokenResponse{Reason: "the stream adds to a block that it did not start"}
		}
		return a.delta(a.blocks[e.Index], e.Delta)
	case "content_block_stop":
		if e.Index >= 0 && int(e.Index) < len(a.blocks) && a.blocks[e.Index].kind == "text" {
			a.listener.End()
		}
	case "message_delta":
		a.stop = cmp.Or(string(e.Delta.StopReason), a.stop)
		a.usage.Output = max(a.usage.Output, e.Usage.OutputTokens) // totals, not increments
		a.usage.Input = max(a.usage.Input, e.Usage.InputTokens)
		a.usage.CacheRead = max(a.usage.CacheRead, e.Usage.CacheReadInputTokens)
		a.usage.CacheWrite = max(a.usage.CacheWrite, e.Usage.CacheCreationInputTokens)
	case "message_stop":
		a.stopped = true
	case "message":
		return a.addWhole(e.RawJSON())
	}
	return nil
}

// startBlock adds a block. Some servers send a call's complete input with its start.
func (a *answer) startBlock(c sdk.ContentBlockStartEventContentBlockUnion) error {
	b := &block{kind: c.Type, id: c.ID, name: c.Name, signature: c.Signature, data: c.Data}
	a.blocks = append(a.blocks, b)
	if len(a.blocks) > chat.MaxCalls {
		return &endpoint.BrokenResponse{Reason: "the answer has too many blocks"}
	}
	switch {
	case b.kind == "tool_use" && c.Input != nil:
		if raw, err := strictjson.Encode(c.Input); err == nil && string(raw) != "{}" {
			b.text.Write(raw)
		}
	case b.kind == "text" && c.Text != "":
		return a.appendText(b, c.Text)
	case b.kind == "thinking":
		b.text.WriteString(c.Thinking)
	}
	return nil
}
