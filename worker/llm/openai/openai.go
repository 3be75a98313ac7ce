// Package openai talks to endpoints that speak OpenAI's Chat Completions API: OpenAI, Ollama, vLLM, llama.cpp and
// others. It requests streams, and accepts complete answers as well.
package openai

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"ao/worker/llm/chat"
	"ao/worker/llm/endpoint"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/shared"
)

// BaseURL is OpenAI's own address.
const BaseURL = "https://api.openai.com/v1"

// Config configures the endpoint. An empty key sends none.
type Config struct {
	BaseURL string // /chat/completions is appended
	Key     string
	Headers map[string]string
	Client  *endpoint.Client
}

// New returns the model behind an endpoint. Unlike the SDK's own client it takes nothing from the environment: a
// stray variable must not send conversations elsewhere.
func New(c Config) chat.Model {
	options := []option.RequestOption{
		option.WithBaseURL(cmp.Or(c.BaseURL, BaseURL)), option.WithHTTPClient(c.Client.HTTP()),
		option.WithMaxRetries(0), option.WithAPIKey(c.Key),
	}
	for name, value := range c.Headers {
		options = append(options, option.WithHeader(name, value))
	}
	own := false
	if u, err := url.Parse(cmp.Or(c.BaseURL, BaseURL)); err == nil {
		own = u.Hostname() == "api.openai.com" || strings.HasSuffix(u.Hostname(), ".openai.azure.com")
	}
	return &model{sdk.Client{Options: options}, own}
}

type model struct {
	client   sdk.Client
	isOpenAI bool // OpenAI's own models reject max_tokens, most other servers know only that
}

// endDelay is how long an endpoint may keep the stream open after the answer's end. Its usage may follow, and [DONE].
const endDelay = 10 * time.Second

// Ask streams one answer.
func (m *model) Ask(ctx context.Context, r chat.Request, l chat.Listener) (chat.Reply, error) {
	var res *http.Response
	reading, stop := context.WithCancel(ctx)
	defer stop()
	err := m.client.Post(reading, "chat/completions", m.params(r), &res, option.WithJSONSet("stream", true))
	if err != nil {
		return chat.Reply{}, endpoint.Classify(ctx, err)
	}
	events := &decoder{Decoder: ssestream.NewDecoder(res)}
	stream := ssestream.NewStream[sdk.ChatCompletionChunk](events, nil)
	defer stream.Close()
	a := answer{listener: l}
	quiet := time.AfterFunc(endDelay, stop)
	for quiet.Stop(); stream.Next(); {
		quiet.Stop()
		if err := a.add(stream.Current()); err != nil {
			return a.reply(), err
		}
		if a.finished() {
			quiet.Reset(endDelay)
		}
	}
	finished := a.finished() || events.done
	if err := stream.Err(); err != nil && !finished {
		return a.reply(), endpoint.Classify(ctx, streamError(err))
	}
	if ctx.Err() != nil {
		return a.reply(), context.Cause(ctx)
	}
	if !finished || a.finish == "" && a.reply().Message.Empty() {
		return a.reply(), &endpoint.BrokenResponse{Reason: "the stream ended before the answer was finished"}
	}
	a.endText()
	return a.reply(), nil
}

// decoder notes the event that ends a stream: some endpoints send no finish reason before it.
type decoder struct {
	ssestream.Decoder
	done bool
}

// Next reads the next event.
func (d *decoder) Next() bool {
	more := d.Decoder.Next()
	d.done = more && bytes.HasPrefix(d.Event().Data, []byte("[DONE]"))
	return more
}

// streamError turns an error event of the stream into an APIError.
func streamError(err error) error {
	e, ok := errors.AsType[*ssestream.StreamError](err)
	if !ok {
		return err
	}
	code, message, _ := endpoint.ParseError(e.Event.Data)
	status := http.StatusInternalServerError
	switch {
	case strings.Contains(code, "rate_limit") || strings.Contains(code, "quota") || code == "429":
		status = http.StatusTooManyRequests
	case strings.Contains(code, "invalid_request") || strings.Contains(code, "context_length") || code == "400":
		status = http.StatusBadRequest
	}
	return &endpoint.APIError{Status: status, Code: code, Message: cmp.Or(message,
		endpoint.Quote(string(e.Event.Data))), API: true}
}

func (m *model) params(r chat.Request) sdk.ChatCompletionNewParams {
	p := sdk.ChatCompletionNewParams{
		Model:         r.Model,
		StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)},
	}
	if r.Temperature != nil {
		p.Temperature = param.NewOpt(*r.Temperature)
	}
	switch {
	case r.MaxTokens == 0:
	case m.isOpenAI:
		p.MaxCompletionTokens = param.NewOpt(int64(r.MaxTokens))
	default:
		p.MaxTokens = param.NewOpt(int64(r.MaxTokens))
	}
	if r.System != "" {
		p.Messages = append(p.Messages, sdk.SystemMessage(r.System))
	}
	for _, msg := range r.Messages {
		p.Messages = append(p.Messages, message(msg)...)
	}
	for _, t := range r.Tools {
		f := shared.FunctionDefinitionParam{Name: t.Name, Parameters: t.Schema}
		if t.Description != "" {
			f.Description = param.NewOpt(t.Description)
		}
		p.Tools = append(p.Tools, sdk.ChatCompletionFunctionTool(f))
	}
	return p
}

// message converts a message; each tool result becomes a message of its own.
func message(m chat.Message) []sdk.ChatCompletionMessageParamUnion {
	switch m.Role {
	case chat.User:
		return []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage(m.Text())}
	case chat.Tool:
		var all []sdk.ChatCompletionMessageParamUnion
		for _, b := range m.Blocks {
			text := b.Text
			if b.Failed { // the API has no field for that
				text = "Error: " + text
			}
			all = append(all, sdk.ToolMessage(text, b.ID))
		}
		return all
	}
	var a sdk.ChatCompletionAssistantMessageParam
	if text := m.Text(); text != "" || len(m.Calls()) == 0 {
		a.Content.OfString = param.NewOpt(text)
	}
	for _, c := range m.Calls() {
		a.ToolCalls = append(a.ToolCalls,
			sdk.ChatCompletionMessageToolCallUnionParam{OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
				ID: c.ID,
				Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.Name,
					Arguments: string(c.Input)},
			}})
	}
	return []sdk.ChatCompletionMessageParamUnion{{OfAssistant: &a}}
}

// answer collects a streamed answer.
type answer struct {
	listener chat.Listener
	text     strings.Builder
	open     bool // a block of text has not ended yet
	calls    []*call
	size     int // bytes of call arguments
	refused  bool
	finish   string
	counted  bool // the usage came, and nothing after it
	model    string
	usage    chat.Usage
}

// finished reports whether the answer is complete, as far as it shows.
func (a *answer) finished() bool { return a.finish != "" || a.counted }

type call struct {
	index    int64
	id, name string
	input    strings.Builder
}

// addCall adds a piece of a call. Some servers give every call the index 0; a different id with a name starts another
// call.
func (a *answer) addCall(t sdk.ChatCompletionChunkChoiceDeltaToolCall) error {
	i := -1
	for j, c := range slices.Backward(a.calls) {
		if c.index == t.Index {
			i = j
			break
		}
	}
	if i < 0 || t.Function.Name != "" && t.ID != "" && a.calls[i].id != "" && t.ID != a.calls[i].id {
		a.calls = append(a.calls, &call{index: t.Index})
		i = len(a.calls) - 1
	}
	c := a.calls[i]
	c.id, c.name = cmp.Or(c.id, t.ID), cmp.Or(c.name, t.Function.Name)
	c.input.WriteString(t.Function.Arguments)
	a.size += len(t.Function.Arguments)
	if a.size > chat.MaxInput || len(a.calls) > chat.MaxCalls {
		return &endpoint.BrokenResponse{Reason: "the model's tool calls are too long"}
	}
	return nil
}

func (a *answer) endText() {
	if a.open {
		a.open = false
		a.listener.End()
	}
}

// reply returns the answer so far.
func (a *answer) reply() chat.Reply {
	r := chat.Reply{Message: chat.Message{Role: chat.Assistant}, Model: a.model, Usage: a.usage}
	if a.text.Len() > 0 {
		r.Message.Blocks = append(r.Message.Blocks, chat.Block{Type: chat.Text, Text: a.text.String()})
	}
	for _, c := range a.calls {
		r.Message.Blocks = append(r.Message.Blocks, chat.NewCall(c.id, c.name, c.input.String()))
	}
	r.SetStop(a.finish)
	if a.refused {
		r.Stop = chat.StopRefused
	}
	return r
}
