package mcpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"ao/shared/strictjson"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const listTools = "tools/list"

// supportedMethods are the methods of this server. The SDK knows more, of capabilities that are not offered here; a subscription
// among them would hold a stream on which nothing ever comes.
var supportedMethods = []string{"initialize", "ping", "server/discover", listTools, "tools/call"}

// message is what has to be known of a JSON-RPC message before the SDK reads it.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// cancels is the id of the request that it cancels.
func (m message) cancels() string {
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	_ = json.Unmarshal(m.Params, &p) // then it cancels nothing
	return string(p.RequestID)
}

// supported reports whether the SDK is to read it: it asks for a method of ours, or answers something.
func (m message) supported() bool {
	return m.Method == "" || slices.Contains(supportedMethods, m.Method)
}

// isNotification reports whether it wants no answer.
func (m message) isNotification() bool { return len(m.ID) == 0 && !m.supported() }

// unsupported reports whether it asks for a method that there is not.
func (m message) unsupported() bool { return len(m.ID) > 0 && !m.supported() }

// read gives a body's message, and the first that is strange. Old clients send several at once: of them nothing else
// has to be known. Whoever answers says what is wrong with a body.
func read(body []byte) (m message, unsupported *message) {
	all := make([]message, 1)
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		_ = json.Unmarshal(body, &all)
	} else {
		_ = json.Unmarshal(body, &m)
		all[0] = m
	}
	if i := slices.IndexFunc(all, message.unsupported); i >= 0 {
		return m, &all[i]
	}
	return m, nil
}

// maxMessages is how many messages a body may have. Each may be answered with megabytes, all at the same time; clients
// send one, and did send a few before 2025-06-18.
const maxMessages = 32

// tooMany reports whether a body, which is JSON, has more than that. It reads no further than it must.
func tooMany(body []byte) bool {
	d := json.NewDecoder(bytes.NewReader(body))
	if first, err := d.Token(); err != nil || first != json.Delim('[') {
		return false
	}
	n := 0
	for ; n <= maxMessages && d.More(); n++ {
		var skipped json.RawMessage
		if d.Decode(&skipped) != nil {
			return false
		}
	}
	return n > maxMessages
}

// maxOverhead is how many bytes of a body may be something else than arguments of tools: the SDK makes thirty times as
// much of these.
const maxOverhead = 256 << 10

// overhead is how many a body has; it is asked only of a large one.
func overhead(body []byte) int {
	if len(body) <= maxOverhead {
		return 0
	}
	type message struct {
		Params json.RawMessage `json:"params"`
	}
	all := make([]message, 1)
	if json.Unmarshal(body, &all[0]) != nil {
		_ = json.Unmarshal(body, &all) // else it has none
	}
	rest := len(body)
	for _, m := range all {
		var call struct {
			Arguments json.RawMessage `json:"arguments"`
		}
		_ = json.Unmarshal(m.Params, &call) // likewise
		rest -= len(call.Arguments)
	}
	return rest
}

// bodyError says in words of ours why the SDK would not read a body, or is not to; empty: it reads it, or says so itself.
func bodyError(body []byte) string {
	if !strictjson.Valid(body) {
		return strictjson.Check(body).Error()
	}
	if tooMany(body) {
		return fmt.Sprintf("The body has more than %d messages; send fewer at once", maxMessages)
	}
	if overhead(body) > maxOverhead {
		return fmt.Sprintf("What is not arguments of a tool may have %d bytes; send less in _meta and the other "+
			"members", maxOverhead)
	}
	type message struct {
		Version string `json:"jsonrpc"`
		Method  string `json:"method"`
	}
	one, all := message{}, []message{}
	if json.Unmarshal(body, &one) != nil && (json.Unmarshal(body, &all) != nil || len(all) == 0) {
		return `The body must be a JSON-RPC message such as {"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	}
	return ""
}

// paramsError says in words of ours why a message's parameters are of no use to the SDK; empty: they are.
func (m message) paramsError() string {
	var call struct {
		Name string         `json:"name"`
		Meta map[string]any `json:"_meta"`
	}
	switch err := json.Unmarshal(m.Params, &call); {
	case len(m.Params) == 0 || err == nil:
		return ""
	case m.Params[0] != '{':
		return "params must be an object"
	default:
		return "params: name must be a string, and _meta an object"
	}
}

// refuse answers a message with an error of JSON-RPC.
func refuse(w http.ResponseWriter, status int, id json.RawMessage, code int64, text string) {
	raw, err := strictjson.Encode(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   jsonrpc.Error   `json:"error"`
	}{"2.0", id, jsonrpc.Error{Code: code, Message: text}})
	if err != nil { // of what was just read
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw)
}

// refuseMethod answers a request for a method that there is not. Up to 2025-11-25 the status is 200: a 404 would tell
// the client that its session is over. Since then there are no sessions, and 404 is what the protocol asks for.
func refuseMethod(w http.ResponseWriter, r *http.Request, m *message) {
	status := http.StatusOK
	if r.Header.Get("Mcp-Protocol-Version") >= "2026-07-28" {
		status = http.StatusNotFound
	}
	refuse(w, status, m.ID, jsonrpc.CodeMethodNotFound, fmt.Sprintf("Method %.80q not found; there are %s", m.Method,
		strings.Join(supportedMethods, ", ")))
}

// filterTools keeps the tools that a caller may not call out of its list.
func filterTools(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		x, ours := ctx.Value(exchangeKey{}).(*exchange)
		if list, ok := res.(*mcp.ListToolsResult); err == nil && ok && ours {
			list.CacheScope = "private"
			list.Tools = slices.DeleteFunc(list.Tools, func(shown *mcp.Tool) bool {
				return slices.ContainsFunc(tools, func(t tool) bool {
					return t.name == shown.Name &&
						t.refuses(x.who) != nil
				})
			})
		}
		return res, err
	}
}
