package httpapi

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"ao/coordinator/access"
	"ao/coordinator/control/webhook"
	"ao/coordinator/drafts"
	"ao/shared/fault"
	"ao/shared/strictjson"
)

// parameters describe the parameters in paths and queries.
var parameters = map[string]obj{
	"id":   text("An id: run_…, ses_… or rnr_…, depending on the route."),
	"side": {"description": "Which schema.", "schema": obj{"type": "string", "enum": drafts.Sides}},
	"name": {"description": "A name.", "schema": obj{"type": "string",
		"pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,59}$"}},
	"status": text("Only those with one of these statuses, separated by commas. Agents: active, inactive, " +
		"broken."),
	"agent_name":        text("Only those of this agent."),
	"session_id":        text("Only those of this session."),
	"parent_session_id": text("Only children of this session."),
	"runner_id":         text("Only those whose current attempt this runner has or had."),
	"retry_of":          text("Only retries of this run."),
	"agent_hash":        text("Only runs of the definition with this hash."),
	"q": {"description": "Only those whose run or session id starts with this, or whose agent, error, prompt or " +
		"parameters (the first 256 bytes) contain it, in any case.", "schema": obj{"type": "string", "maxLength": 256}},
	"roots": flag("Only runs of sessions without a parent, each with the number of runs of its session's " +
		"children."),
	"created_after": {"description": "Only those created after this time (RFC 3339).", "schema": dateTime},
	"limit": {"description": "Maximum number of items; default 50, of /rejected 20.",
		"schema": obj{"type": "integer", "minimum": 1,
			"maximum": 1000}},
	"cursor": text("next_cursor of the previous page."),
	"after":  text("Events: next of the previous page. Audit: only entries after this time (RFC 3339)."),
	"actor":  text("Only what this token, kind of actor, session, run, runner or credential did."),
	"action": text("Only this action, or those that start with it and a dot."),
	"run":    text("Only what concerns this run, or was done by it."),
	"max_bytes": {"description": "Cut a result, or each event, to about this many bytes; a cut document says so.",
		"schema": obj{"type": "integer", "minimum": 1}},
	"format": {"description": "csv or ndjson: all matches as a file, the newest 100,000 at most (limit: fewer).",
		"schema": obj{"type": "string", "enum": []string{formatJSON, formatCSV, formatNDJSON}, "default": formatJSON}},
	"download": flag("Answer with a file."),
	"report":   flag("Answer 200 also where it would be refused, with the refusal as error."),
	"timeout_seconds": {"description": "How long to wait, in seconds.",
		"schema": obj{"type": "integer", "minimum": 0, "maximum": maxWait, "default": defaultWait}},
}

var dateTime = obj{"type": "string", "format": "date-time"}

// text describes a parameter that is a string.
func text(description string) obj {
	return obj{"description": description, "schema": obj{"type": "string"}}
}

// flag describes a parameter that is true or false.
func flag(description string) obj {
	return obj{"description": description, "schema": obj{"type": "boolean", "default": false}}
}

// header describes a request header.
func header(name, description string) obj {
	h := text(description)
	h["name"], h["in"] = name, "header"
	return h
}

// Headers of conditional and repeatable requests.
var (
	ifMatchHeader = header("If-Match", "The ETag of what you change; if it is another by now: 412 with the "+
		"current state.")
	ifNoneMatchHeader = header("If-None-Match", "*: only if there is none yet; an ETag: only if it is another. Else "+
		"412.")
	keyHeader = header("Idempotency-Key", "The same key with the same body returns the first answer again.")
)

// headers describe the request headers that a route reads.
var headers = map[string][]obj{
	"POST /runs":           {keyHeader, header("traceparent", "W3C trace context, passed to the executor.")},
	"POST /runs/retry":     {header("Idempotency-Key", "A repeat applies to the runs of the first call.")},
	"POST /runs/:id/retry": {keyHeader},
	"GET /agents/:name":    {header("If-None-Match", "An ETag: 304 if the definition is unchanged.")},
	"PATCH /agents/:name":  {ifMatchHeader, ifNoneMatchHeader},
	"DELETE /agents/:name": {ifMatchHeader, ifNoneMatchHeader},

	"POST /agents/:name/reset": {ifMatchHeader, ifNoneMatchHeader},

	"GET /sse/sessions": {header("Last-Event-ID", "Resumes after this item.")},
	"GET /sse/runs":     {header("Last-Event-ID", "Resumes after this item, or after the Ao-Position of a list.")},

	"PUT /agents/:name/drafts/:side":    {ifMatchHeader, ifNoneMatchHeader},
	"DELETE /agents/:name/drafts/:side": {ifMatchHeader, ifNoneMatchHeader},
}

// described makes the OpenAPI 3.1 document from the routes, their bodies (openapi_bodies.go) and the access rules.
// Tests compare their answers with it.
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
		item[strings.ToLower(r.Method)] = s.operation(r, r.body())
	}
	raw, err := strictjson.Encode(obj{
		"openapi": "3.1.0",
		"info": obj{
			"title": "Agent Orchestrator", "version": "1",
			"description": "Runs of AI agents and deterministic tasks. Unknown fields and query parameters are " +
				"refused.",
			"license": obj{"name": "MIT", "identifier": "MIT"},
		},
		"servers":  []obj{{"url": "/"}},
		"security": []obj{{"token": []string{}}, {}},
		"paths":    paths,
		"webhooks": obj{"run": obj{"post": obj{
			"summary":     "a run with a callback_url has ended; signed as Standard Webhooks describes",
			"operationId": "webhook_run", "requestBody": obj{"required": true, "content": jsonBody(s.of(
				webhook.Payload{}))},
			"responses": obj{"2XX": obj{"description": "accepted"}, "410": obj{"description": "no further attempts"},
				"default": obj{"description": "tried again"}},
		}}},
		"components": obj{
			"securitySchemes": obj{
				"token": obj{"type": "http", "scheme": "bearer", "description": "An API token (ao tokens), or an " +
					"executor's session token. Required if AO_API_TOKENS is set."}},
			"schemas": s.made,
		},
	})
	if err != nil { // cannot happen: maps and strings
		panic(err)
	}
	return raw
}

// operation describes one route.
func (s *typeSchemas) operation(r route, b body) obj {
	op := obj{"summary": r.Summary, "operationId": operationID(r), "tags": []string{tag(r.Path)}}
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
		params = append(params, header(positionHeader, "The answer has at least this position; 503 if it is not read "+
			"yet."))
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

// answer describes the answer with one code.
func (s *typeSchemas) answer(b body, code int, out any) obj {
	a := obj{"description": http.StatusText(code)}
	if code == http.StatusCreated {
		a["headers"] = obj{"Location": obj{"schema": obj{"type": "string"}, "description": "its path"}}
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
	maps.Copy(p, parameters[name])
	if in == "path" {
		p["required"] = true
	}
	return p
}

func jsonBody(schema any) obj { return obj{"application/json": obj{"schema": schema}} }

// template returns a path in OpenAPI's form.
func template(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if name, ok := strings.CutPrefix(p, ":"); ok {
			parts[i] = "{" + name + "}"
		}
	}
	return strings.Join(parts, "/")
}

// operationID returns a name for functions of generated clients: get_runs_id_wait.
func operationID(r route) string {
	words := strings.FieldsFunc(strings.ToLower(r.Method)+r.Path, func(c rune) bool { return !('a' <= c && c <= 'z') })
	if r.Path == "/" {
		words = append(words, "index")
	}
	return strings.Join(words, "_")
}

// tag returns the first word of a path.
func tag(path string) string {
	word, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if word == "" || slices.Contains([]string{"health", "ready", "openapi.json", "metrics", "status", "settings",
		"audit", "me", "login", "logout"}, word) {
		return "service"
	}
	return word
}
