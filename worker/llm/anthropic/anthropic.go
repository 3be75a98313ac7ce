// Package anthropic talks to endpoints that speak Anthropic's Messages API. It requests streams, and accepts complete
// answers as well.
package anthropic

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	"ao/shared/strictjson"
	"ao/worker/llm/chat"
	"ao/worker/llm/endpoint"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"
)

// BaseURL is Anthropic's own address.
const BaseURL = "https://api.anthropic.com"

// provider marks blocks that only this API understands.
const provider = "anthropic"

// maxTokens is the default limit: the API has none.
const maxTokens = 8192

// Config configures the endpoint. An empty key sends none.
type Config struct {
	BaseURL string // /v1/messages is appended; may end with /v1
	Key     string
	Headers map[string]string
	Client  *endpoint.Client
}

// New returns the model behind an endpoint. Unlike the SDK's own client it takes nothing from the environment: a
// stray variable must not send conversations elsewhere.
func New(c Config) chat.Model {
	base := strings.TrimSuffix(strings.TrimSuffix(cmp.Or(c.BaseURL, BaseURL), "/"), "/v1")
	options := []option.RequestOption{option.WithBaseURL(base), option.WithHTTPClient(c.Client.HTTP()),
		option.WithMaxRetries(0)}
	if c.Key != "" {
		options = append(options, option.WithAPIKey(c.Key))
	}
	for name, value := range c.Headers {
		options = append(options, option.WithHeader(name, value))
	}
	return &model{sdk.NewMessageService(options...)}
}

type model struct{ messages sdk.MessageService }

// Ask streams one answer.
func (m *model) Ask(ctx context.Context, r chat.Request, l chat.Listener) (chat.Reply, error) {
	stream := m.messages.NewStreaming(ctx, params(r))
	defer stream.Close()
	a := answer{listener: l}
	for !a.stopped && stream.Next() {
		if err := a.add(stream.Current()); err != nil {
			return a.reply(), err
		}
	}
	finished := a.stopped || a.stop != ""
	if err := stream.Err(); err != nil && !finished {
		return a.reply(), endpoint.Classify(ctx, streamError(err))
	}
	if !finished {
		if ctx.Err() != nil {
			return a.reply(), context.Cause(ctx)
		}
		return a.reply(), &endpoint.BrokenResponse{Reason: "the stream ended before the answer was finished"}
	}
	return a.reply(), nil
}

// statuses are the HTTP codes of errors that arrive as stream events.
var statuses = map[string]int{
	"invalid_request_error": http.StatusBadRequest, "authentication_error": http.StatusUnauthorized,
	"billing_error":    http.StatusPaymentRequired,
	"permission_error": http.StatusForbidden, "not_found_error": http.StatusNotFound,
	"request_too_large": http.StatusRequestEntityTooLarge,
	"rate_limit_error":  http.StatusTooManyRequests, "timeout_error": http.StatusGatewayTimeout,
	"overloaded_error": 529,
}

// streamError turns an error event of the stream into an APIError.
func streamError(err error) error {
	e, ok := errors.AsType[*sdk.Error](err)
	if !ok {
		return err
	}
	code, message, _ := endpoint.ParseError([]byte(e.RawJSON()))
	status := cmp.Or(statuses[code], http.StatusInternalServerError)
	return &endpoint.APIError{Status: status, Code: code, Message: cmp.Or(message, endpoint.Quote(e.RawJSON())),
		API: true}
}

func params(r chat.Request) sdk.MessageNewParams {
	p := sdk.MessageNewParams{Model: r.Model, MaxTokens: int64(cmp.Or(r.MaxTokens, maxTokens))}
	if r.Temperature != nil {
		p.Temperature = param.NewOpt(*r.Temperature)
	}
	if strings.TrimSpace(r.System) != "" {
		p.System = []sdk.TextBlockParam{{Text: r.System}}
	}
	for _, m := range r.Messages {
		p.Messages = append(p.Messages, message(m))
	}
	for _, t := range r.Tools {
		tool := sdk.ToolParam{Name: t.Name, InputSchema: schema(t.Schema)}
		if t.Description != "" {
			tool.Description = param.NewOpt(t.Description)
		}
		p.Tools = append(p.Tools, sdk.ToolUnionParam{OfTool: &tool})
	}
	setCacheMarks(&p)
	return p
}

// setCacheMarks marks the prefix that the next request will share, so that the API can cache it. It goes up to the end
// of the tools, the system prompt and the conversation. That is three marks; the API allows four. Prefixes too short to
// cache cost nothing.
func setCacheMarks(p *sdk.MessageNewParams) {
	mark := sdk.NewCacheControlEphemeralParam()
	if n := len(p.Tools); n > 0 {
		p.Tools[n-1].OfTool.CacheControl = mark
	}
	if n := len(p.System); n > 0 {
		p.System[n-1].CacheControl = mark
	}
	if n := len(p.Messages); n > 0 {
		blocks := p.Messages[n-1].Content
		if last := blocks[len(blocks)-1].GetCacheControl(); last != nil {
			*last = mark
		}
	}
}

func schema(of map[string]any) sdk.ToolInputSchemaParam {
	s := sdk.ToolInputSchemaParam{ExtraFields: map[string]any{}}
	for key, value := range of {
		switch key {
		case "type": // always object
		case "properties":
			s.Properties = value
		default:
			s.ExtraFields[key] = value
		}
	}
	return s
}

// emptyText replaces blank text where the API requires text.
const emptyText = "(empty)"

func message(m chat.Message) sdk.MessageParam {
	var blocks []sdk.ContentBlockParamUnion
	for _, b := range m.Blocks {
		switch b.Type {
		case chat.Text:
			if strings.TrimSpace(b.Text) != "" { // the API rejects blank text
				blocks = append(blocks, sdk.NewTextBlock(b.Text))
			}
		case chat.Call:
			blocks = append(blocks, sdk.NewToolUseBlock(b.ID, b.Input, b.Name))
		case chat.Result:
			text := b.Text
			if strings.TrimSpace(text) == "" {
				text = emptyText
			}
			blocks = append(blocks, sdk.NewToolResultBlock(b.ID, text, b.Failed))
		case chat.ProviderBlock:
			if b.Provider == provider {
				blocks = append(blocks, param.Override[sdk.ContentBlockParamUnion](b.Raw))
			}
		}
	}
	if len(blocks) == 0 {
		blocks = append(blocks, sdk.NewTextBlock(emptyText))
	}
	if m.Role == chat.Assistant {
		return sdk.NewAssistantMessage(blocks...)
	}
	return sdk.NewUserMessage(blocks...)
}

// answer collects a streamed answer.
type answer struct {
	listener chat.Listener
	blocks   []*block
	size     int // bytes of call inputs and provider blocks
	stop     string
	stopped  bool
	model    string
	usage    chat.Usage
}

type block struct {
	kind, id, name  string
	text            strings.Builder // text, thinking, or input
	signature, data string
}

func (a *answer) delta(b *block, d sdk.MessageStreamEventUnionDelta) error {
	switch d.Type {
	case "text_delta":
		return a.appendText(b, d.Text)
	case "input_json_delta":
		b.text.WriteString(d.PartialJSON)
	case "thinking_delta":
		b.text.WriteString(d.Thinking)
	case "signature_delta":
		b.signature += d.Signature
	}
	a.size += len(d.PartialJSON) + len(d.Thinking) + len(d.Signature)
	if a.size > chat.MaxInput {
		return &endpoint.BrokenResponse{Reason: "the model's tool calls are too long"}
	}
	return nil
}

func (a *answer) appendText(b *block, text string) error {
	b.text.WriteString(text)
	return a.listener.Text(text)
}

// reply returns the answer so far.
func (a *answer) reply() chat.Reply {
	r := chat.Reply{Message: chat.Message{Role: chat.Assistant}, Model: a.model, Usage: a.usage}
	for _, b := range a.blocks {
		switch b.kind {
		case "text":
			r.Message.Blocks = append(r.Message.Blocks, chat.Block{Type: chat.Text, Text: b.text.String()})
		case "tool_use":
			r.Message.Blocks = append(r.Message.Blocks, chat.NewCall(b.id, b.name, b.text.String()))
		case "thinking": // must be returned unchanged, or the API rejects the tool results
			r.Message.Blocks = append(r.Message.Blocks,
				providerBlock(map[string]string{"type": b.kind, "thinking": b.text.String(), "signature": b.signature}))
		case "redacted_thinking":
			r.Message.Blocks = append(r.Message.Blocks,
				providerBlock(map[string]string{"type": b.kind, "data": b.data}))
		}
	}
	r.SetStop(a.stop)
	return r
}

func providerBlock(block map[string]string) chat.Block {
	raw, _ := strictjson.Encode(block) // strings always encode
	return chat.Block{Type: chat.ProviderBlock, Provider: provider, Raw: raw}
}
