package serve_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The document of GET /openapi.json, and its schemas, compiled when they are needed. Members that no schema names are
// wrong here: the document must describe everything that is answered.
var document struct {
	once  sync.Once
	paths map[string]map[string]struct {
		Responses map[string]struct {
			Content map[string]json.RawMessage `json:"content"`
		} `json:"responses"`
	}
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema
	err      error
}

// learn reads the document of a coordinator of its own.
func learn(t testing.TB) {
	document.once.Do(func() {
		s := start(t)
		res, err := http.Get(s.url + "/openapi.json")
		if err != nil {
			document.err = err
			return
		}
		defer res.Body.Close()
		whole, err := jsonschema.UnmarshalJSON(res.Body)
		if err != nil {
			document.err = err
			return
		}
		closed(whole)
		raw, _ := json.Marshal(whole)
		var d struct {
			Paths any `json:"paths"`
		}
		d.Paths = &document.paths
		document.err = json.Unmarshal(raw, &d)
		if document.err != nil {
			return
		}
		document.compiled, document.compiler = map[string]*jsonschema.Schema{}, jsonschema.NewCompiler()
		document.compiler.DefaultDraft(jsonschema.Draft2020)
		document.compiler.AssertFormat()
		document.err = document.compiler.AddResource("ao.json", whole)
	})
	if document.err != nil {
		t.Fatal(document.err)
	}
}

// closed refuses members that an object does not name.
func closed(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, one := range v {
			closed(one)
		}
		if _, ok := v["properties"].(map[string]any); ok && v["type"] == "object" && v["additionalProperties"] == nil {
			v["additionalProperties"] = false
		}
	case []any:
		for _, one := range v {
			closed(one)
		}
	}
}

// described finds a request's place in the document: its path as the document writes it.
func described(path string) (template string, ok bool) {
	path, _, _ = strings.Cut(path, "?")
	parts := strings.Split(path, "/")
	for known := range document.paths {
		want := strings.Split(known, "/")
		if len(want) != len(parts) {
			continue
		}
		fits, exact := true, true
		for i := range want {
			if strings.HasPrefix(want[i], "{") {
				exact = false
			} else if want[i] != parts[i] {
				fits = false
			}
		}
		if fits && (exact || !ok) {
			template, ok = known, true
		}
		if fits && exact {
			return template, true
		}
	}
	return template, ok
}

// asDescribed holds an answer against the document.
func asDescribed(t testing.TB, method, path string, g got) {
	t.Helper()
	learn(t)
	at, known := described(path)
	if method == http.MethodHead || !known {
		return
	}
	op, known := document.paths[at][strings.ToLower(method)]
	if !known { // 405
		return
	}
	code := strconv.Itoa(g.status)
	if _, ok := op.Responses[code]; !ok {
		if g.status < 400 {
			t.Errorf("%s %s answers %s, which openapi.json does not tell", method, at, code)
			return
		}
		code = "default"
	}
	kind, _, _ := strings.Cut(g.header.Get("Content-Type"), ";")
	_, documented := op.Responses[code].Content[kind]
	switch {
	case g.body == "" && len(op.Responses[code].Content) == 0:
		return
	case !documented:
		t.Errorf("%s %s answers %s with %q, which openapi.json does not tell", method, at, code, kind)
		return
	case kind != "application/json":
		return
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	pointer := "ao.json#/paths/" + escape.Replace(at) + "/" + strings.ToLower(method) + "/responses/" +
		code + "/content/application~1json/schema"
	document.mu.Lock()
	defer document.mu.Unlock()
	schema := document.compiled[pointer]
	if schema == nil {
		var err error
		schema, err = document.compiler.Compile(strings.NewReplacer("{", "%7B", "}", "%7D").Replace(pointer))
		if err != nil {
			t.Fatalf("%s: %v", pointer, err)
		}
		document.compiled[pointer] = schema
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(g.body)))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		t.Errorf("%s %s answered %d otherwise than openapi.json says: %v\n%s", method, path, g.status, err, g.body)
	}
}

// TestOpenAPI: the document is there, says its version, and each of its schemas can be used. That answers are as it
// says, asDescribed checks in every test.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	learn(t)
	s := start(t)
	whole := s.get("/openapi.json").want(200)
	if whole["openapi"] != "3.1.0" {
		t.Errorf("openapi: %v", whole["openapi"])
	}
	for _, must := range []string{"/runs", "/runs/{id}/wait", "/sse/sessions", "/agents/{name}", "/mcp"} {
		if _, ok := document.paths[must]; !ok {
			t.Errorf("nothing describes %s", must)
		}
	}
	ids := map[string]string{}
	paths := whole["paths"].(map[string]any)
	for path, item := range paths {
		for method, op := range item.(map[string]any) {
			id := op.(map[string]any)["operationId"].(string)
			if other := ids[id]; other != "" {
				t.Errorf("%s %s and %s have the same operationId %s", method, path, other, id)
			}
			ids[id] = method + " " + path
		}
	}
	for name := range whole["components"].(map[string]any)["schemas"].(map[string]any) {
		document.mu.Lock()
		_, err := document.compiler.Compile("ao.json#/components/schemas/" + name)
		document.mu.Unlock()
		if err != nil {
			t.Errorf("schema %s: %v", name, err)
		}
	}
}
