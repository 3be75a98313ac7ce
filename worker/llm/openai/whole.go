package openai

import (
	"cmp"
	"encoding/json"
	"strings"

	"ao/worker/llm/chat"
	"ao/worker/llm/endpoint"

	sdk "github.com/openai/openai-go/v3"
)

// addWhole adds an answer that was not streamed: a choice with a message instead of a delta.
func (a *answer) addWhole(raw string) error {
	var choice struct {
		Finish  json.RawMessage                     `json:"finish_reason"`
		Message *sdk.ChatCompletionChunkChoiceDelta `json:"message"` // the members of a delta, without the calls' index
	}
	if err := json.Unmarshal([]byte(raw), &choice); err != nil {
		return &endpoint.BrokenResponse{Reason: "a choice of the answer cannot be read"}
	}
	if choice.Message == nil {
		return nil
	}
	for i := range choice.Message.ToolCalls {
		choice.Message.ToolCalls[i].Index = int64(i)
	}
	var finish string
	_ = json.Unmarshal(choice.Finish, &finish)
	a.finish = cmp.Or(finish, "stop") // a complete answer
	return a.addDelta(*choice.Message)
}

// addDelta adds the next part of an answer.
func (a *answer) addDelta(d sdk.ChatCompletionChunkChoiceDelta) error {
	text, err := contentText(d)
	if err != nil {
		return err
	}
	a.refused = a.refused || d.Refusal != ""
	if text += d.Refusal; text != "" {
		a.counted = false
		a.text.WriteString(text)
		a.open = true
		if err := a.listener.Text(text); err != nil {
			return err
		}
	}
	if len(d.ToolCalls) == 0 { // some send both
		d.ToolCalls = oldCall(d.JSON.FunctionCall.Raw())
	}
	for _, t := range d.ToolCalls {
		a.endText()
		a.counted = false
		if err := a.addCall(t); err != nil {
			return err
		}
	}
	return nil
}

// oldCall returns the call in a function_call, the form before tool_calls. Some endpoints send an empty one.
func oldCall(raw string) []sdk.ChatCompletionChunkChoiceDeltaToolCall {
	t := sdk.ChatCompletionChunkChoiceDeltaToolCall{Index: -1, ID: "function_call"}
	if json.Unmarshal([]byte(raw), &t.Function) != nil || t.Function.Name+t.Function.Arguments == "" {
		return nil
	}
	return []sdk.ChatCompletionChunkChoiceDeltaToolCall{t}
}

// contentText returns the text of a delta. Some endpoints send a list of parts, in which thinking is no text.
func contentText(d sdk.ChatCompletionChunkChoiceDelta) (string, error) {
	raw := d.JSON.Content.Raw()
	if !strings.HasPrefix(raw, "[") {
		return d.Content, nil
	}
	var parts []json.RawMessage
	if json.Unmarshal([]byte(raw), &parts) != nil {
		return "", &endpoint.BrokenResponse{Reason: "its content cannot be read"}
	}
	var text strings.Builder
	for _, p := range parts {
		var part struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		switch {
		case json.Unmarshal(p, &part.Text) == nil:
			text.WriteString(part.Text)
		case json.Unmarshal(p, &part) != nil:
			return "", &endpoint.BrokenResponse{Reason: "a part of its content cannot be read"}
		case part.Type == "text" || part.Type == "output_text":
			text.WriteString(part.Text)
		}
	}
	return text.String(), nil
}

func (a *answer) add(c sdk.ChatCompletionChunk) error {
	a.model = cmp.Or(c.Model, a.model)
	if u := c.Usage; u.PromptTokens > 0 || u.CompletionTokens > 0 {
		a.counted = a.counted || len(c.Choices) == 0 && u.CompletionTokens > 0
		cached := min(u.PromptTokensDetails.CachedTokens, u.PromptTokens)
		a.usage = chat.Usage{Input: u.PromptTokens - cached, Output: u.CompletionTokens, CacheRead: cached}
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 { // only one was requested
			continue
		}
		if err := a.addWhole(choice.RawJSON()); err != nil {
			return err
		}
		if err := a.addDelta(choice.Delta); err != nil {
			return err
		}
		a.finish = cmp.Or(choice.FinishReason, a.finish)
	}
	return nil
}
