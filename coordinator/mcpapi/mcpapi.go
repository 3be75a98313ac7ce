// Package mcpapi serves the Model Context Protocol: tools to start and follow sessions of agents. It is stateless
// streamable HTTP, so any coordinator can answer any request. Checks, rights and answers are those of the HTTP API.
package mcpapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"ao/coordinator/access"
	"ao/shared/fault"
	"ao/shared/runnerapi"
	"ao/shared/strictjson"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const instructions = `Agent Orchestrator runs agents. list_agent_blueprints lists them and the input that each ` +
	`takes; start_agent_session starts one and by default waits for its result. A call that waits too long gives the ` +
	`session's id: ask get_agent_session_result for the rest. A refused call says what is wrong: correct it and ` +
	`call again.`

// New makes the API.
func New(cfg Config) *API {
	cfg.KeepAlive = cmp.Or(cfg.KeepAlive, 15*time.Second)
	if cfg.Waiting == nil {
		cfg.Waiting = context.Background()
	}
	if cfg.ReserveStream == nil {
		cfg.ReserveStream = func(context.Context, access.Caller) (func(), error) { return func() {}, nil }
	}
	a := &API{cfg: cfg, log: cmp.Or(cfg.Log, slog.Default())}
	server := mcp.NewServer(&mcp.Implementation{Name: "agent-orchestrator", Title: "Agent Orchestrator",
		Version: "1.0.0"}, &mcp.ServerOptions{
		Instructions: instructions,
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	for _, t := range tools {
		server.AddTool(&mcp.Tool{
			Name: t.name, Title: t.title, Description: t.description, InputSchema: json.RawMessage(t.inputSchema),
			Annotations: &mcp.ToolAnnotations{Title: t.title, ReadOnlyHint: t.readOnly, DestructiveHint: &t.destructive,
				OpenWorldHint: new(bool)},
		}, a.toolHandler(t))
	}
	server.AddReceivingMiddleware(filterTools)
	// The HTTP API has limited the body and refused foreign hosts and origins. The SDK's own check of Host would refuse
	// requests through a proxy on this machine.
	a.handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: true, MaxRequestBodyBytes: -1})
	return a
}

// sessionHeader names a client's MCP session. It only tells whose call a later request cancels; no session is kept.
const sessionHeader = "Mcp-Session-Id"

// Serve answers one POST of a caller. It calls stored when what the body asks for has been stored: waiting for the end
// is no more work.
func (a *API) Serve(w http.ResponseWriter, r *http.Request, body []byte, who access.Caller,
	stored func()) (waited time.Duration) {
	if code, why := bodyError(body); why != "" {
		refuse(w, http.StatusBadRequest, nil, code, why)
		return
	}
	all := read(body)
	if i := slices.IndexFunc(all, message.unsupported); i >= 0 {
		refuseMethod(w, r, &all[i])
		return
	}
	m := message{} // several at once need nothing else from here
	if !several(body) {
		m = all[0]
	}
	if why := m.paramsError(); why != "" && m.supported() && len(m.ID) > 0 {
		refuse(w, http.StatusOK, m.ID, jsonrpc.CodeInvalidParams, why)
		return
	}
	if m.Method == "initialize" {
		w.Header().Set(sessionHeader, rand.Text())
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if session := r.Header.Get(sessionHeader); session != "" {
		if m.Method == "notifications/cancelled" {
			if end, ok := a.waits.Load(session + " " + m.cancels()); ok {
				end.(context.CancelFunc)()
			}
		} else if len(m.ID) > 0 {
			call := session + " " + string(m.ID)
			a.waits.Store(call, cancel)
			defer a.waits.Delete(call)
		}
	}
	if m.isNotification() { // other notifications matter only where sessions are kept
		w.WriteHeader(http.StatusAccepted)
		return
	}
	answer := &keepAliveWriter{ResponseWriter: w}
	r.Body = io.NopCloser(bytes.NewReader(answer.ids.replace(body, all)))
	x := &exchange{who: who, ctx: ctx, w: answer, headerSession: r.Header.Get(runnerapi.HeaderSession), stored: stored,
		progressToken: m.progressToken(),
		from:          r.RemoteAddr, id: w.Header().Get("X-Request-Id")}
	defer x.w.close()
	a.handler.ServeHTTP(x.w, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x)))
	return time.Duration(x.waited.Load())
}

// maxAnswer is the most bytes of an answer. It is sent twice, as text and as data, and clients refuse events beyond
// 16 MiB.
const maxAnswer = 4 << 20

// toolHandler adapts a tool to the SDK. Errors are answers that the model can read.
func (a *API) toolHandler(t tool) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		x, ok := ctx.Value(exchangeKey{}).(*exchange)
		if !ok {
			return nil, errors.New("a call without a request")
		}
		began := time.Now()
		one := &call{exchange: x, notify: ctx, req: req}
		v, err := a.run(t, one)
		a.record(t, one, err)
		res, code := a.result(v, err)
		a.log.Debug("mcp tool", "tool", t.name, "code", code, "took", time.Since(began).Round(time.Microsecond))
		return res, nil
	}
}

// run calls a tool if the caller may. It recovers from panics, which would end the process.
func (a *API) run(t tool, x *call) (v any, err error) {
	defer func() {
		if p := recover(); p != nil {
			a.log.Error("panic", "tool", t.name, "panic", p, "stack", string(debug.Stack()))
			err = errors.New("panic")
		}
	}()
	if err := t.refuses(x.who); err != nil {
		return nil, err
	}
	x.args = x.req.Params.Arguments
	if len(x.args) == 0 || string(x.args) == "null" {
		x.args = json.RawMessage(`{}`)
	}
	x.args = t.arguments().Unquote(x.args)
	return t.do(a, x)
}

// result builds the answer: the document as data and as text; an error as text only.
func (a *API) result(v any, err error) (res *mcp.CallToolResult, code string) {
	if err != nil {
		f := fault.Of(err)
		if f.Kind == fault.Internal {
			a.log.Error("mcp tool failed", "err", err)
		}
		v = failure{f}
		code = f.Code
	}
	bad, isError := v.(failure)
	if isError {
		v = bad.doc
	}
	raw, err := strictjson.Encode(v)
	if err == nil && len(raw) > maxAnswer {
		f := fault.Newf(fault.TooLarge, "The answer has %d bytes, more than fits here; read it over HTTP: GET "+
			"/sessions/{id}/result", len(raw))
		raw, err = strictjson.Encode(f)
		isError, code = true, f.Code
	}
	if err != nil {
		a.log.Error("answer cannot be encoded", "err", err)
		raw, isError, code = []byte(`{"error":"internal","message":"The answer cannot be written"}`), true, "internal"
	}
	res = &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(raw)}}, IsError: isError}
	if !isError {
		res.StructuredContent = json.RawMessage(raw)
	}
	return res, code
}
