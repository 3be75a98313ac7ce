package httpapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"ao/coordinator/access"
	"ao/coordinator/drafts"
	"ao/shared/fault"
)

// parameters is what the document says of parameters in paths and queries.
var parameters = map[string]obj{
	"id": {"description": "An id: run_…, ses_… or rnr_…, by the route.",
		"schema": obj{"type": "string"}},
	"side": {"description": "Which schema: input or output.",
		"schema": obj{"type": "string", "enum": drafts.Sides}},
	"name": {
		"description": "A name.", "schema": obj{"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,59}$"}},
	"status": {"description": "Only those with one of these statuses: a comma list.",
		"schema": obj{"type": "string"}},
	"agent_name":        {"description": "Only those of this agent.", "schema": obj{"type": "string"}},
	"session_id":        {"description": "Only what is of this session.", "schema": obj{"type": "string"}},
	"parent_session_id": {"description": "Only children of this session.", "schema": obj{"type": "string"}},
	"runner_id": {"description": "Only those whose current attempt this runner has, or had.",
		"schema": obj{"type": "string"}},
	"retry_of": {"description": "Only those that repeat this run.", "schema": obj{"type": "string"}},
	"q": {"description": "Only those whose run or session id begins with this, or whose agent, error, " +
		"prompt or parameters have it (the first 256 bytes), in any case.",
		"schema": obj{"type": "string", "maxLength": 256}},
	"roots": {
		"description": "Only runs of sessions that are below no other; each with its children's number of runs.",
		"schema":      obj{"type": "boolean", "default": false}},
	"created_after": {"description": "Only what was created after this moment (RFC 3339).",
		"schema": obj{"type": "string", "format": "date-time"}},
	"limit": {"description": "How many at most.", "schema": obj{"type": "integer", "minimum": 1,
		"maximum": 1000}},
	"cursor": {"description": "next_cursor of the page before.", "schema": obj{"type": "string"}},
	"after": {
		"description": "Events: next of the page before. The audit: only what is later than this moment (RFC 3339).",
		"schema":      obj{"type": "string"}},
	"actor": {"description": "Only what this token, kind of actor, session, run, runner or credential did.",
		"schema": obj{"type": "string"}},
	"action": {"description": "Only this action, or those that begin with it and a dot.",
		"schema": obj{"type": "string"}},
	"run": {"description": "Only what is about this run, or was done by it.",
		"schema": obj{"type": "string"}},
	"max_bytes": {"description": "About how many bytes of a result, or of each event, are wanted: longer texts " +
		"are cut, which the document says.", "schema": obj{"type": "integer", "minimum": 1}},
	"format": {
		"description": "csv, ndjson: all runs that match as a file, the newest 100,000 at most (limit: fewer).",
		"schema": obj{"type": "string", "enum": []string{formatJSON, formatCSV, formatNDJSON},
			"default": formatJSON}},
	"download": {"description": "The answer is a file.", "schema": obj{"type": "boolean", "default": false}},
	"timeout_seconds": {"description": "How long to wait, in seconds.", "schema": obj{"type": "integer", "minimum": 0,
		"maximum": maxWait, "default": defaultWait}},
}

// ifMatchHeader has a change refused where the thing is not what the caller saw.
var ifMatchHeader = obj{"name": "If-Match", "in": "header", "schema": obj{"type": "string"},
	"description": "ETag of what is to be changed; another one by now: 412, with it as current."}

// ifNoneMatchHeader has a change refused where there is something.
var ifNoneMatchHeader = obj{"name": "If-None-Match", "in": "header", "schema": obj{"type": "string"},
	"description": "*: only where there is none yet; else 412."}

// headers is what the document says of request headers that a route looks at.
var headers = map[string][]obj{
	"POST /runs": {
		{"name": "Idempotency-Key", "in": "header", "schema": obj{"type": "string"},
			"description": "The same key with the same body gives the first answer again."},
		{"name": "traceparent", "in": "header", "schema": obj{"type": "string"},
			"description": "W3C trace context, handed on to the executor."},
	},
	"POST /runs/retry": {
		{"name": "Idempotency-Key", "in": "header", "schema": obj{"type": "string"},
			"description": "A repeat is about the runs that the first call was about."},
	},
	"POST /runs/:id/retry": {
		{"name": "Idempotency-Key", "in": "header", "schema": obj{"type": "string"},
			"description": "The same key with the same body gives the first answer again."},
	},
	"GET /agents/:name": {
		{"name": "If-None-Match", "in": "header", "schema": obj{"type": "string"},
			"description": "ETag that the caller has: 304 where it is still the definition's."},
	},
	"PATCH /agents/:name":  {ifMatchHeader},
	"DELETE /agents/:name": {ifMatchHeader},
	"GET /sse/sessions": {{"name": "Last-Event-ID", "in": "header", "schema": obj{"type": "string"},
		"description": "Goes on after this item."}},
	"GET /sse/runs": {{"name": "Last-Event-ID", "in": "header", "schema": obj{"type": "string"},
		"description": "Goes on behind this item, or behind the Ao-Position of a list."}},
	"PUT /agents/:name/drafts/:side":    {ifMatchHeader, ifNoneMatchHeader},
	"DELETE /agents/:name/drafts/:side": {ifMatchHeader},
}

// described makes the document: OpenAPI 3.1, from the routes, from the types that handlers read and give
// (openapi_bodies.go), and from the rules of access. A test holds every answer of the other tests against it.
func described(routes []route) []byte {
	s := &typeSchemas{made: obj{}}
	paths := obj{}
	for _, r := range routes {
		path := template(r.Path)
		item, _ := paths[path].(obj)
		if item == nil {
			item = obj{}
			paths[path] = item
		}
		item[strings.ToLower(r.Method)] = s.operation(r, bodies[r.Method+" "+r.Path])
	}
	raw, err := json.Marshal(obj{
		"openapi": "3.1.0",
		"info": obj{
			"title": "Agent Orchestrator", "version": "1",
			"description": "Runs of AI agents and deterministic tasks. Unknown fields and query parameters are " +
				"refused by their name.",
			"license": obj{"name": "MIT", "identifier": "MIT"},
		},
		"servers":  []obj{{"url": "/"}},
		"security": []obj{{"token": []string{}}, {}},
		"paths":    paths,
		"webhooks": obj{"run": obj{"post": obj{
			"summary":     "a run with a callback_url has ended: signed as Standard Webhooks describes",
			"operationId": "webhook_run", "requestBody": obj{"required": true, "content": jsonBody(s.of(hook))},
			"responses": obj{"2XX": obj{"description": "taken"}, "410": obj{"description": "tell no more"},
				"default": obj{"description": "to be tried again"}},
		}}},
		"components": obj{
			"securitySchemes": obj{
				"token": obj{"type": "http", "scheme": "bearer",
					"description": "An API token (ao tokens), or an executor's session token. Asked for where the " +
						"coordinator has AO_API_TOKENS."}},
			"schemas": s.made,
		},
	})
	if err != nil { // of maps and words
		panic(err)
	}
	return raw
}

// operation describes one route.
func (s *typeSchemas) operation(r route, b body) obj {
	op := obj{"summary": r.Say, "operationId": operationID(r), "tags": []string{tag(r.Path)}}
	var params []obj
	for part := range strings.SplitSeq(r.Path, "/") {
		if name, ok := strings.CutPrefix(part, ":"); ok {
			params = append(params, parameter(name, "path"))
		}
	}
	for _, name := range r.Query {
		params = append(params, parameter(name, "query"))
	}
	params = append(params, headers[r.Method+" "+r.Path]...)
	if isPositioned(r) {
		params = append(params, obj{"name": positionHeader, "in": "header", "schema": obj{"type": "string"},
			"description": "Answers show this position at least; 503 where it is not read yet."})
	}
	if len(params) > 0 {
		op["parameters"] = params
	}
	if b.in != nil {
		content := jsonBody(s.request(b))
		if kind, plain := b.in.(mediaType); plain {
			content = obj{string(kind): obj{"schema": obj{"type": "string"}}}
		}
		op["requestBody"] = obj{"required": !b.may, "content": content}
	}
	rule := access.RuleOf(r.Method, r.Path)
	op["x-scope"] = rule.Scope.String()
	if rule.Scope == access.Open {
		op["security"] = []obj{{}}
	}
	wrong := jsonBody(s.of(fault.Fault{}))
	if b.plain {
		wrong["text/plain"] = obj{"schema": obj{"type": "string"}}
	}
	answers := obj{"default": obj{"description": "an error", "content": wrong}}
	for code, out := range b.answers(r.ok) {
		answers[strconv.Itoa(code)] = s.answer(b, code, out)
	}
	op["responses"] = answers
	return op
}

// answer describes what comes with one code.
func (s *typeSchemas) answer(b body, code int, out any) obj {
	a := obj{"description": http.StatusText(code)}
	if code == http.StatusCreated {
		a["headers"] = obj{"Location": obj{"schema": obj{"type": "string"}, "description": "where it is"}}
	}
	content := obj{}
	if out != nil {
		content = jsonBody(s.of(out))
	}
	if b.stream && code == http.StatusOK {
		content["text/event-stream"] = obj{"schema": obj{"type": "string"}}
	}
	if b.export && code == http.StatusOK {
		for _, as := range exports {
			kind, _, _ := strings.Cut(as.mediaType, ";")
			content[kind] = obj{"schema": obj{"type": "string"}}
		}
	}
	if b.file && code == http.StatusOK {
		content["application/octet-stream"] = obj{"schema": obj{"type": "string"}}
	}
	if kind, plain := out.(mediaType); plain {
		content = obj{string(kind): obj{"schema": obj{"type": "string"}}}
	}
	if len(content) > 0 {
		a["content"] = content
	}
	return a
}

func parameter(name, in string) obj {
	p := obj{"name": name, "in": in, "schema": obj{"type": "string"}}
	for k, v := range parameters[name] {
		p[k] = v
	}
	if in == "path" {
		p["required"] = true
	}
	return p
}

func jsonBody(schema any) obj { return obj{"application/json": obj{"schema": schema}} }

// template is a path as OpenAPI writes it.
func template(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if name, ok := strings.CutPrefix(p, ":"); ok {
			parts[i] = "{" + name + "}"
		}
	}
	return strings.Join(parts, "/")
}

// operationID is a name that generated clients can use for a function: get_runs_id_wait.
func operationID(r route) string {
	words := strings.FieldsFunc(strings.ToLower(r.Method)+r.Path, func(c rune) bool { return !('a' <= c && c <= 'z') })
	if r.Path == "/" {
		words = append(words, "index")
	}
	return strings.Join(words, "_")
}

// tag is the first word of a path.
func tag(path string) string {
	word, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if word == "" || slices.Contains([]string{"health", "ready", "openapi.json", "metrics", "status", "settings",
		"audit", "me", "login", "logout"}, word) {
		return "service"
	}
	return word
}
