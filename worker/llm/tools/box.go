package tools

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"ao/worker/llm/chat"
	"ao/worker/llm/endpoint"
	"ao/worker/process"
)

// The limits of what a server may offer.
const (
	maxTools = 1000     // of one server
	maxBytes = 64 << 20 // of one answer
	maxLine  = 16 << 20 // of one message
)

// How long servers may take to end by themselves when the run is over, and when it was stopped: that suffices to tell them.
const (
	parting = 2 * time.Second
	hurried = 300 * time.Millisecond
)

// legacy is the protocol's version that is offered to programs. Later ones begin without a handshake, and a program that knows
// nothing of that may wait for one for ever.
const legacy = "2025-11-25"

// Config says how the servers are talked to. All are required but Dir, In and Kill.
type Config struct {
	Env       []string             // of the programs
	Dir       string               // their working directory
	In        *process.Confinement // what they may have and see; nil: all that this process may
	Kill      <-chan struct{}      // closed when they must be gone at once (process.Spec); nil: never
	Connect   time.Duration        // until a server has told its tools
	Timeout   time.Duration        // of one call
	MaxOutput int                  // bytes of one result; the middle of more is cut out, visibly
}

// Box is the tools of a run.
type Box struct {
	config  Config
	run     context.Context
	end     context.CancelFunc // everything ends
	servers []*connection
	tools   []chat.Definition
	of      map[string]tool // by the name that the model uses
}

type tool struct {
	server *connection
	name   string // the server's own
}

// connection is a server that is talked to.
type connection struct {
	Server
	session *mcp.ClientSession
	program *program // stdio
	tools   []*mcp.Tool
}

// Unusable is a server that cannot be used, and a sentence that says why and what to do.
type Unusable struct{ Server, Why string }

// Open connects to the servers and asks for their tools, until ctx ends. Calls end with their own contexts, the servers with Close.
// A server that cannot be used is left out; unusable says of each which and why.
func Open(ctx context.Context, servers []Server, c Config) (b *Box, unusable []Unusable) {
	inner, end := context.WithCancel(context.WithoutCancel(ctx)) // a stopped run's servers are told so first
	defer context.AfterFunc(ctx, end)()
	b = &Box{config: c, run: ctx, end: end, of: map[string]tool{}}
	why := make([]string, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		con := &connection{Server: s}
		b.servers = append(b.servers, con)
		wg.Go(func() { why[i] = con.open(inner, c) })
	}
	wg.Wait()
	for i, con := range b.servers {
		if why[i] != "" {
			unusable = append(unusable, Unusable{con.Name, why[i]})
			continue
		}
		for _, t := range con.tools {
			b.add(con, t)
		}
	}
	return b, unusable
}

// open connects and lists the tools, or says why it cannot.
func (s *connection) open(ctx context.Context, c Config) (why string) {
	ctx, cancel := context.WithCancelCause(ctx) // it ends with the box: a stream of the server's lives in it
	late := fmt.Errorf("it did not answer within %s", c.Connect)
	timer := time.AfterFunc(c.Connect, func() { cancel(late) })
	defer timer.Stop()
	err := s.connect(ctx, c)
	if err == nil {
		err = s.list(ctx)
	}
	if err == nil && timer.Stop() {
		return ""
	}
	var ended string
	if context.Cause(ctx) == late {
		err = late
	} else if s.program != nil { // before it is ended by us
		ended = s.program.why()
	}
	cancel(nil)
	advice := "check its url in the agent's mcp_servers, and whether it runs"
	if s.Type == kindStdio {
		advice = "check its command in the agent's mcp_servers"
	}
	return fmt.Sprintf("The MCP server %q cannot be used: %s; %s", s.Name, s.hide(cmp.Or(ended, endpoint.Trouble(err))), advice)
}

func (s *connection) connect(ctx context.Context, c Config) error {
	client := mcp.NewClient(&mcp.Implementation{Name: "ao-llm-exec", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	var transport mcp.Transport
	var options *mcp.ClientSessionOptions
	switch s.Type {
	case kindStdio:
		p, err := s.begin(ctx, c)
		if err != nil {
			return err
		}
		s.program = p
		transport, options = p.transport(), &mcp.ClientSessionOptions{ProtocolVersion: legacy}
	case kindSSE:
		transport = &mcp.SSEClientTransport{Endpoint: s.URL, HTTPClient: s.client(ctx), MaxEventSize: maxLine}
	default:
		transport = &mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: s.client(ctx), MaxEventSize: maxLine, DisableStandaloneSSE: true, MaxRetries: 2}
	}
	session, err := client.Connect(ctx, transport, options)
	s.session = session
	return err
}

// list asks for all tools.
func (s *connection) list(ctx context.Context) error {
	if r := s.session.InitializeResult(); r == nil || r.Capabilities == nil || r.Capabilities.Tools == nil {
		return nil
	}
	for t, err := range s.session.Tools(ctx, nil) {
		if err != nil {
			return fmt.Errorf("its tools cannot be listed: %w", err)
		}
		if s.tools = append(s.tools, t); len(s.tools) > maxTools {
			return fmt.Errorf("it has more than %d tools", maxTools)
		}
	}
	return nil
}

var illegal = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// Legal makes of a name one that every API takes.
func Legal(name string) string {
	legal := illegal.ReplaceAllString(name, "_")
	if len(legal) > 64 {
		sum := sha256.Sum256([]byte(name))
		legal = legal[:55] + "_" + hex.EncodeToString(sum[:4])
	}
	return cmp.Or(legal, "_")
}

// add names a tool as the model calls it: server__tool.
func (b *Box) add(s *connection, t *mcp.Tool) {
	name := Legal(s.Name + "__" + t.Name)
	for n := 2; ; n++ {
		if _, taken := b.of[name]; !taken {
			break
		}
		name = Legal(fmt.Sprintf("%s__%s_%d", s.Name, t.Name, n))
	}
	b.of[name] = tool{s, t.Name}
	schema, _ := t.InputSchema.(map[string]any)
	schema = maps.Clone(schema)
	if schema == nil {
		schema = map[string]any{}
	}
	schema["type"] = "object"
	if schema["properties"] == nil { // an API refuses an object without
		schema["properties"] = map[string]any{}
	}
	b.tools = append(b.tools, chat.Definition{Name: name, Description: t.Description, Schema: schema})
}

// Tools are what the model may call.
func (b *Box) Tools() []chat.Definition { return b.tools }

// Call calls a tool. failed: the text says what went wrong, for the model to mend it.
func (b *Box) Call(ctx context.Context, name string, input json.RawMessage) (text string, failed bool) {
	t, ok := b.of[name]
	if !ok {
		return fmt.Sprintf("There is no tool %.80q", name), true
	}
	late := errors.New("late")
	call, cancel := context.WithTimeoutCause(ctx, b.config.Timeout, late)
	defer cancel()
	result, err := t.server.session.CallTool(call, &mcp.CallToolParams{Name: t.name, Arguments: input})
	switch {
	case err != nil && context.Cause(call) == late:
		return fmt.Sprintf("The tool did not answer within %s; what it was asked for may or may not have been done", b.config.Timeout), true
	case err != nil:
		why := endpoint.Trouble(err)
		if p := t.server.program; p != nil {
			why = cmp.Or(p.why(), why)
		}
		return "The tool failed: " + t.server.hide(why), true
	}
	text = process.Plain(process.Cut([]byte(said(result)), b.config.MaxOutput))
	return cmp.Or(text, "(no output)"), result.IsError
}

// said is a result as text.
func said(r *mcp.CallToolResult) string {
	var parts []string
	for _, c := range r.Content {
		switch c := c.(type) {
		case *mcp.TextContent:
			parts = append(parts, c.Text)
		case *mcp.ImageContent:
			parts = append(parts, fmt.Sprintf("[An image (%s, %d bytes) is not shown]", c.MIMEType, len(c.Data)))
		case *mcp.AudioContent:
			parts = append(parts, fmt.Sprintf("[A sound (%s, %d bytes) is not shown]", c.MIMEType, len(c.Data)))
		case *mcp.ResourceLink:
			parts = append(parts, fmt.Sprintf("[A resource: %s]", c.URI))
		case *mcp.EmbeddedResource:
			switch {
			case c.Resource == nil:
			case c.Resource.Text != "":
				parts = append(parts, c.Resource.Text)
			default:
				parts = append(parts, fmt.Sprintf("[A resource (%s, %d bytes) is not shown: %s]", c.Resource.MIMEType, len(c.Resource.Blob), c.Resource.URI))
			}
		}
	}
	if len(parts) == 0 && r.StructuredContent != nil {
		if raw, err := json.Marshal(r.StructuredContent); err == nil {
			return string(raw)
		}
	}
	return strings.Join(parts, "\n")
}

// Close ends the sessions and the programs; when it returns, nothing of them is left.
func (b *Box) Close() {
	var wg sync.WaitGroup
	for _, s := range b.servers {
		wg.Go(func() {
			if s.session != nil {
				s.session.Close()
			}
			if s.program != nil {
				s.program.close()
			}
		})
	}
	closed := make(chan struct{})
	go func() { wg.Wait(); close(closed) }()
	patience := parting
	if b.run.Err() != nil {
		patience = hurried
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
	}
	b.end()
	<-closed
}
