// Package chat is a conversation with a model in a form independent of the provider. It can continue with another
// model, another provider, and on another worker.
package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
)

// Roles of messages.
const (
	User      = "user"
	Assistant = "assistant"
	Tool      = "tool" // one result per call of the message before it, in order
)

// Types of blocks.
const (
	Text          = "text"
	Call          = "call"   // of an assistant: a tool call
	Result        = "result" // of a tool message: result of a call
	ProviderBlock = "own"    // of an assistant: data that only its provider understands and needs back unchanged
)

// Message is a message of one side.
type Message struct {
	Role   string  `json:"role"`
	Blocks []Block `json:"blocks"`
}

// Block is a part of a message. Type says which of the others are set.
type Block struct {
	Type  string          `json:"type"`
	Text  string          `json:"text,omitempty"`  // text and result
	ID    string          `json:"id,omitempty"`    // call and result: which call
	Name  string          `json:"name,omitempty"`  // call: the tool
	Input json.RawMessage `json:"input,omitempty"` // call: an object
	// call: its arguments if they are no JSON object; Input is {} then
	BadInput string          `json:"-"`
	Failed   bool            `json:"failed,omitempty"`   // result: Text is an error
	Provider string          `json:"provider,omitempty"` // own: its provider
	Raw      json.RawMessage `json:"raw,omitempty"`      // own
}

// TextMessage returns a message of one text.
func TextMessage(role, text string) Message {
	return Message{Role: role, Blocks: []Block{{Type: Text, Text: text}}}
}

// Text returns all text of the message.
func (m Message) Text() string {
	var b strings.Builder
	for _, block := range m.Blocks {
		if block.Type == Text {
			b.WriteString(block.Text)
		}
	}
	return b.String()
}

// Empty reports whether the message has neither text nor calls.
func (m Message) Empty() bool { return m.Text() == "" && len(m.Calls()) == 0 }

// Calls returns the message's tool calls.
func (m Message) Calls() []Block {
	var calls []Block
	for _, block := range m.Blocks {
		if block.Type == Call {
			calls = append(calls, block)
		}
	}
	return calls
}

// Definition is a tool that the model may call.
type Definition struct {
	Name        string // 1 to 64 letters, digits, '_' or '-', unique
	Description string
	Schema      map[string]any // JSON Schema of its input, an object
}

// Request is one call of a model.
type Request struct {
	Model       string
	System      string
	Messages    []Message
	Tools       []Definition
	MaxTokens   int      // 0: the provider's default
	Temperature *float64 // nil: the provider's default
}

// Reply is a model's answer.
type Reply struct {
	Message Message
	Stop    string // set by SetStop
	Reason  string // the endpoint's own finish reason
	Model   string // as the endpoint names it
	Usage   Usage
}

// Usage counts tokens. Input excludes tokens read from or written to a cache.
type Usage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_tokens,omitempty"`
	CacheWrite int64 `json:"cache_write_tokens,omitempty"`
}

// Add adds more.
func (u *Usage) Add(more Usage) {
	u.Input += more.Input
	u.Output += more.Output
	u.CacheRead += more.CacheRead
	u.CacheWrite += more.CacheWrite
}

// Listener receives a streamed answer. Its methods are called in order, never concurrently.
type Listener interface {
	Text(delta string) error // more text; an error ends the call with it
	End()                    // a block of text is complete
}

// Model is an endpoint that answers. The errors of Ask are of package endpoint, the Listener's, or the context's.
// With an error, Reply holds the partial text and the usage so far.
type Model interface {
	Ask(ctx context.Context, r Request, l Listener) (Reply, error)
}

// Limits of one answer.
const (
	MaxInput = 4 << 20 // bytes of all call inputs
	MaxCalls = 128
)

// NewCall returns a call with the input that a model wrote. No text and null mean no input; another text that is no
// object is kept in BadInput.
func NewCall(id, name, input string) Block {
	b := Block{Type: Call, ID: id, Name: name, Input: json.RawMessage("{}")}
	raw := bytes.TrimSpace([]byte(input))
	switch {
	case len(raw) == 0 || string(raw) == "null":
	case raw[0] == '{' && json.Valid(raw):
		b.Input = raw
	default:
		b.BadInput = input
	}
	return b
}
