// Package chat is a conversation with a model as no provider's API has it: what is kept of it can go on with another
// model, another provider, and on another worker.
package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
)

// The roles of messages.
const (
	User      = "user"
	Assistant = "assistant"
	Tool      = "tool" // the answers to the calls of the message before it, one each and in their order
)

// The types of blocks.
const (
	Text   = "text"
	Call   = "call"   // of an assistant: a tool that it wants called
	Result = "result" // of a tool message: what came of a call
	Own    = "own"    // of an assistant: something only its provider understands, and wants back as it is
)

// Message is what one side said.
type Message struct {
	Role   string  `json:"role"`
	Blocks []Block `json:"blocks"`
}

// Block is a part of a message. Type says which of the others are set.
type Block struct {
	Type     string          `json:"type"`
	Text     string          `json:"text,omitempty"`     // text and result
	ID       string          `json:"id,omitempty"`       // call and result: which call
	Name     string          `json:"name,omitempty"`     // call: the tool
	Input    json.RawMessage `json:"input,omitempty"`    // call: an object
	Unread   string          `json:"-"`                  // call: its arguments were no object, and this is why; Input is {}
	Failed   bool            `json:"failed,omitempty"`   // result: Text is an error
	Provider string          `json:"provider,omitempty"` // own: whose
	Raw      json.RawMessage `json:"raw,omitempty"`      // own
}

// Say is a message of one text.
func Say(role, text string) Message {
	return Message{Role: role, Blocks: []Block{{Type: Text, Text: text}}}
}

// Text is all text of the message.
func (m Message) Text() string {
	var b strings.Builder
	for _, block := range m.Blocks {
		if block.Type == Text {
			b.WriteString(block.Text)
		}
	}
	return b.String()
}

// Calls are the tools that the message wants called.
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
	Schema      map[string]any // of its input: an object's JSON Schema
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

// The reasons for which a model stops.
const (
	StopEnd     = "end"
	StopCalls   = "calls"   // it waits for the answers to its calls
	StopLength  = "length"  // it had no more tokens
	StopRefused = "refused" // it, or a filter around it, declined
)

// Reply is what a model answered.
type Reply struct {
	Message Message
	Stop    string
	Model   string // as the endpoint names it
	Usage   Usage
}

// Usage counts tokens. Input is without what was read from or written to a cache.
type Usage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_tokens,omitempty"`
	CacheWrite int64 `json:"cache_write_tokens,omitempty"`
}

// Add counts more.
func (u *Usage) Add(more Usage) {
	u.Input += more.Input
	u.Output += more.Output
	u.CacheRead += more.CacheRead
	u.CacheWrite += more.CacheWrite
}

// Listener hears a model speak. Its methods are called by one goroutine, in order.
type Listener interface {
	Text(delta string) error // more text; an error ends the call with it
	End()                    // a block of text is complete
}

// Model is an endpoint that answers. The errors of Ask are of package endpoint, a Listener's, or the context's. What of a
// reply there is by then comes with an error, too: Message holds its text, and Usage what was counted.
type Model interface {
	Ask(ctx context.Context, r Request, l Listener) (Reply, error)
}

// The limits of what one answer may ask for.
const (
	MaxInput = 4 << 20 // bytes of all its calls' inputs
	MaxCalls = 128
)

// NewCall is a call with the input that a model wrote. No text is no input; one that is no object is told in Unread.
func NewCall(id, name, input string) Block {
	b := Block{Type: Call, ID: id, Name: name, Input: json.RawMessage("{}")}
	raw := bytes.TrimSpace([]byte(input))
	switch {
	case len(raw) == 0:
	case raw[0] == '{' && json.Valid(raw):
		b.Input = raw
	default:
		b.Unread = input
	}
	return b
}
