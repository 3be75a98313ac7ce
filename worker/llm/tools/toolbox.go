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

	"ao/shared/strictjson"
	"ao/worker/llm/chat"
	"ao/worker/llm/endpoint"
	"ao/worker/process"
)

// Limits of a server.
const (
	maxTools = 1000     // of one server
	maxBytes = 64 << 20 // of one answer
	maxLine  = 16 << 20 // of one message
)

// How long servers may take to end by themselves: after a run, and after a stopped run.
const (
	closeTimeout = 2 * time.Second
	stopTimeout  = 300 * time.Millisecond
)

// stdioVersion is the protocol version offered to programs. Later versions start without a handshake, which some
// programs wait for forever.
const stdioVersion = "2025-11-25"

// Config configures a Toolbox. All fields but Dir, Confinement and Kill are required.
type Config struct {
	Env         []string             // of the programs
	Dir         string               // their working directory
	Confinement *process.Confinement // nil: not confined
	Kill        <-chan struct{}      // closed to kill them without grace (process.Spec); nil: never
	Connect     time.Duration        // time limit to connect and list the tools
	Timeout     time.Duration        // time limit of one call
	MaxOutput   int                  // largest result, in bytes; longer ones are cut visibly
}

// Toolbox is the tools of a run.
type Toolbox struct {
	config  Config
	run     context.Context
	end     context.CancelFunc // ends everything
	servers []*connection
	tools   []chat.Definition
	byName  map[string]tool // by the name that the model uses
}

type tool struct {
	server *connection
	name   string // the server's own
}

type connection struct {
	Server
	session *mcp.ClientSession
	program *program // stdio
	tools   []*mcp.Tool
}

// Unusable is a server that cannot be used, with the reason and what to do.
type Unusable struct{ Server, Reason string }

// Open connects to the servers and lists their tools, until ctx ends. Calls end with their own contexts, the servers
// with Close. Servers that cannot be used are left out and returned as unusable.
func Open(ctx context.Context, servers []Server, c Config) (b *Toolbox, unusable []Unusable) {
	inner, end := context.WithCancel(context.WithoutCancel(ctx)) // a stopped run's servers are notified first
	defer context.AfterFunc(ctx, end)()
	b = &Toolbox{config: c, run: ctx, end: end, byName: map[string]tool{}}
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

// open connects and lists the tools, or returns why it cannot.
func (s *connection) open(ctx context.Context, c Config) (why string) {
	ctx, cancel := context.WithCancelCause(ctx) // lives as long as the toolbox, for the server's stream
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
	} else if s.program != nil { // before it is ended below
		ended = s.program.failure()
	}
	cancel(nil)
	advice := "check its url in the agent's mcp_servers, and whether it runs"
	if s.Type == kindStdio {
		advice = "check its command in the agent's mcp_servers"
	}
	return fmt.Sprintf("the MCP server %q cannot be used: %s; %s", s.Name,
		s.redact(cmp.Or(ended, endpoint.Describe(err))), advice)
}

func (s *connection) connect(ctx context.Context, c Config) error {
	client := mcp.NewClient(&mcp.Implementation{Name: "ao-llm-exec", Version: "1"},
		&mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	var transport mcp.Transport
	var options *mcp.ClientSessionOptions
	switch s.Type {
	case kindStdio:
		p, err := s.start(ctx, c)
		if err != nil {
			return err
		}
		s.program = p
		transport, options = p.transport(), &mcp.ClientSessionOptions{ProtocolVersion: stdioVersion}
	case kindSSE:
		transport = &mcp.SSEClientTransport{Endpoint: s.URL, HTTPClient: s.client(ctx), MaxEventSize: maxLine}
	default:
		transport = &mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: s.client(ctx), MaxEventSize: maxLine,
			DisableStandaloneSSE: true, MaxRetries: 2}
	}
	session, err := client.Connect(ctx, transport, options)
	s.session = session
	return err
}

func (s *connection) list(ctx context.Context) error {
	if r := s.session.InitializeResult(); r == nil || r.Capabilities == nil || r.Capabilities.Tools == nil {
		return nil
	}
	for t, err := range s.session.Tools(ctx, nil) {
		if err != nil {
			return fmt.Errorf("cannot list its tools: %w", err)
		}
		s.tools = append(s.tools, t)
		if len(s.tools) > maxTools {
			return fmt.Errorf("it has more than %d tools", maxTools)
		}
	}
	return nil
}

var invalidChar = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// ValidName turns a name into one that every API accepts.
func ValidName(name string) string {
	legal := invalidChar.ReplaceAllString(name, "_")
	if len(legal) > 64 {
		sum := sha256.Sum256([]byte(name))
		legal = legal[:55] + "_" + hex.EncodeToString(sum[:4])
	}
	return cmp.Or(legal, "_")
}

// add adds a tool under the name for the model: server__tool.
func (b *Toolbox) add(s *connection, t *mcp.Tool) {
	name := ValidName(s.Name + "__" + t.Name)
	for n := 2; ; n++ {
		if _, taken := b.byName[name]; !taken {
			break
		}
		name = ValidName(fmt.Sprintf("%s__%s_%d", s.Name, t.Name, n))
	}
	b.byName[name] = tool{s, t.Name}
	schema, _ := t.InputSchema.(map[string]any)
	schema = maps.Clone(schema)
	if schema == nil {
		schema = map[string]any{}
	}
	schema["type"] = "object"
	if schema["properties"] == nil { // an API requires properties
		schema["properties"] = map[string]any{}
	}
	b.tools = append(b.tools, chat.Definition{Name: name, Description: t.Description, Schema: schema})
}

// Tools returns the tools that the model may call.
func (b *Toolbox) Tools() []chat.Definition { return b.tools }

// Call calls a tool. failed: the text is an error for the model.
func (b *Toolbox) Call(ctx context.Context, name string, input json.RawMessage) (text string, failed bool) {
	t, ok := b.byName[name]
	if !ok {
		return fmt.Sprintf("unknown tool %.80q", name), true
	}
	late := errors.New("late")
	call, cancel := context.WithTimeoutCause(ctx, b.config.Timeout, late)
	defer cancel()
	result, err := t.server.session.CallTool(call, &mcp.CallToolParams{Name: t.name, Arguments: input})
	switch {
	case err != nil && context.Cause(call) == late:
		return fmt.Sprintf("the tool did not answer within %s; the call may or may not have had effects",
			b.config.Timeout), true
	case err != nil:
		why := endpoint.Describe(err)
		if p := t.server.program; p != nil {
			why = cmp.Or(p.failure(), why)
		}
		return "the tool failed: " + t.server.redact(why), true
	}
	text = process.Plain(process.Cut([]byte(resultText(result)), b.config.MaxOutput))
	return cmp.Or(text, "(no output)"), result.IsError
}

func resultText(r *mcp.CallToolResult) string {
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
				parts = append(parts, fmt.Sprintf("[A resource (%s, %d bytes) is not shown: %s]", c.Resource.MIMEType,
					len(c.Resource.Blob), c.Resource.URI))
			}
		}
	}
	if len(parts) == 0 && r.StructuredContent != nil {
		if raw, err := strictjson.Encode(r.StructuredContent); err == nil {
			return string(raw)
		}
	}
	return strings.Join(parts, "\n")
}

// Close ends the sessions and the programs, and waits until nothing of them is left.
func (b *Toolbox) Close() {
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
	timeout := closeTimeout
	if b.run.Err() != nil {
		timeout = stopTimeout
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
	}
	b.end()
	<-closed
}
