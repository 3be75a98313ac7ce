package openai

import (
	"cmp"
	"encoding/json"

	"ao/worker/llm/chat"
	"ao/worker/llm/endpoint"

	sdk "github.com/openai/openai-go/v3"
)

// whole takes an answer that did not come as a stream: a choice that has a message instead of a piece of one.
func (a *answer) whole(raw string) error {
	var choice struct {
		Finish  string                              `json:"finish_reason"`
		Message *sdk.ChatCompletionChunkChoiceDelta `json:"message"` // the members of a piece, but the calls' index
	}
	if err := json.Unmarshal([]byte(raw), &choice); err != nil {
		return &endpoint.Broken{Why: "the answer cannot be read: " + endpoint.Quote(err.Error())}
	}
	m := choice.Message
	if m == nil {
		return nil
	}
	a.refused = m.Refusal != ""
	if text := m.Content + m.Refusal; text != "" {
		a.text.WriteString(text)
		a.open = true
		if err := a.listener.Text(text); err != nil {
			return err
		}
	}
	for i, t := range m.ToolCalls {
		a.end()
		t.Index = int64(i)
		if err := a.call(t); err != nil {
			return err
		}
	}
	if a.finish = choice.Finish; a.finish == "" { // it is all there is
		a.finish = "stop"
	}
	return nil
}

func (a *answer) add(c sdk.ChatCompletionChunk) error {
	a.model = cmp.Or(c.Model, a.model)
	if u := c.Usage; u.PromptTokens > 0 || u.CompletionTokens > 0 {
		cached := min(u.PromptTokensDetails.CachedTokens, u.PromptTokens)
		a.usage = chat.Usage{Input: u.PromptTokens - cached, Output: u.CompletionTokens, CacheRead: cached}
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 { // one was asked for
			continue
		}
		if err := a.whole(choice.RawJSON()); err != nil {
			return err
		}
		d := choice.Delta
		a.refused = a.refused || d.Refusal != ""
		if text := d.Content + d.Refusal; text != "" {
			a.text.WriteString(text)
			a.open = true
			if err := a.listener.Text(text); err != nil {
				return err
			}
		}
		for _, t := range d.ToolCalls {
			a.end()
			if err := a.call(t); err != nil {
				return err
			}
		}
		a.finish = cmp.Or(choice.FinishReason, a.finish)
	}
	return nil
}
