package openai

import (
	"encoding/json"

	sdk "github.com/openai/openai-go/v3"

	"ao/worker/llm/endpoint"
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
