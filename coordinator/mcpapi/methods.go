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

// supportedMethods are the methods of this server. The SDK has more, for capabilities that are not offered here; a
// subscription would hold a stream without events.
var supportedMethods = []string{"initialize", "ping", "server/discover", listTools, "tools/call"}

// message is the part of a JSON-RPC message that is needed before the SDK reads it.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// cancels returns the id of the request that the message cancels.
func (m message) cancels() string {
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	_ = json.Unmarshal(m.Params, &p) // an unreadable message cancels nothing
	return string(p.RequestID)
}

// supported reports whether the SDK is to read it: it asks for a method of ours, or answers something.
func (m message) supported() bool {
	return m.Method == "" || slices.Contains(supportedMethods, m.Method)
}

// isNotification reports whether the message expects no answer.
func (m message) isNotification() bool { return len(m.ID) == 0 && !m.supported() }

// unsupported reports whether the message calls an unknown method.
func (m message) unsupported() bool { return len(m.ID) > 0 && !m.supported() }

// read returns the messages of a body. Old clients send several at once. Invalid bodies are refused later.
func read(body []byte) []message {
	all := make([]message, 1)
	if several(body) {
		_ = json.Unmarshal(body, &all)
	} else {
		_ = json.Unmarshal(body, &all[0])
	}
	return all
}

func several(body []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) }

// maxMessages is the most messages of a body. Each may be answered with megabytes at the same time. Clients send one;
// before 2025-06-18 they sent a few.
const maxMessages = 32

// tooMany reports whether a JSON body has more than maxMessages. It stops reading there.
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

// maxOverhead is the most bytes of a body outside the arguments of tools: the SDK uses thirty times as much memory for
// them.
const maxOverhead = 256 << 10

// overhead counts the bytes of a body outside the arguments of tools. It is called only for large bodies.
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

// bodyError returns why the SDK would not, or should not, read a body, with JSON-RPC's code; empty: it reads it or
// answers itself.
func bodyError(body []byte) (code int64, why string) {
	if !strictjson.Valid(body) {
		return jsonrpc.CodeParseError, strictjson.Check(body).Error()
	}
	return jsonrpc.CodeInvalidRequest, requestError(body)
}

func requestError(body []byte) string {
	if tooMany(body) {
		return fmt.Sprintf("The body has more than %d messages; send fewer at once", maxMessages)
	}
	if overhead(body) > maxOverhead {
		return fmt.Sprintf("What is not arguments of a tool may have %d bytes; send less in _meta and the other "+
			"members", maxOverhead)
	}
	var all []json.RawMessage
	if several(body) {
		_ = json.Unmarshal(body, &all) // it is valid
	} else {
		all = append(all, body)
	}
	if len(all) == 0 {
		return noMessage
	}
	for _, one := range all {
		if why := messageError(one); why != "" {
			return why
		}
	}
	return ""
}

const noMessage = `The body must be a JSON-RPC message such as {"jsonrpc":"2.0","id":1,"method":"tools/list"}`

// messageError returns why a value is no JSON-RPC message; empty: it is one.
func messageError(raw json.RawMessage) string {
	var m struct {
		message
		Version string `json:"jsonrpc"`
	}
	members, err := strictjson.Members(raw)
	if err != nil || json.Unmarshal(raw, &m) != nil {
		return noMessage
	}
	seen := map[string]bool{}
	for _, member := range members {
		key := strings.ToLower(member.Key) // encoding/json takes any case
		if seen[key] {
			return fmt.Sprintf("%.80s appears twice in a message", member.Key)
		}
		seen[key] = true
	}
	id, isRequest := string(m.ID), m.Method != ""
	switch {
	case m.Version != "2.0":
		return `jsonrpc must be "2.0"`
	case id != "" && !strings.ContainsAny(id[:1], `"-0123456789`) && (isRequest || id != "null"):
		return "id must be a string or a number"
	}
	return ""
}

// paramsError returns what is wrong with a message's parameters; empty: nothing that the SDK would not report.
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

// refuse answers a message with a JSON-RPC error. An id of null is for one whose id cannot be read.
func refuse(w http.ResponseWriter, status int, id json.RawMessage, code int64, text string) {
	raw, err := strictjson.Encode(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   jsonrpc.Error   `json:"error"`
	}{"2.0", id, jsonrpc.Error{Code: code, Message: text}})
	if err != nil { // cannot happen: it was just decoded
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw)
}

// refuseMethod answers a call of an unknown method. Up to version 2025-11-25 the status is 200, since clients took 404
// for the end of their session. Later versions have no sessions and ask for 404.
func refuseMethod(w http.ResponseWriter, r *http.Request, m *message) {
	status := http.StatusOK
	if r.Header.Get("Mcp-Protocol-Version") >= "2026-07-28" {
		status = http.StatusNotFound
	}
	refuse(w, status, m.ID, jsonrpc.CodeMethodNotFound, fmt.Sprintf("Method %.80q not found; there are %s", m.Method,
		strings.Join(supportedMethods, ", ")))
}

// filterTools removes the tools that the caller may not call from the list.
func filterTools(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		x, ours := ctx.Value(exchangeKey{}).(*exchange)
		if list, ok := res.(*mcp.ListToolsResult); err == nil && ok && ours {
			list.CacheScope = "private"
			list.Tools = slices.DeleteFunc(list.Tools, func(shown *mcp.Tool) bool {
				return slices.ContainsFunc(tools, func(t tool) bool {
					return t.name == shown.Name && t.refuses(x.who) != nil
				})
			})
		}
		return res, err
	}
}
