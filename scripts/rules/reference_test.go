package rules

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ao/coordinator/access"
	"ao/coordinator/httpapi"
	"ao/nats/subject"
	"ao/scripts/reference"
	"ao/shared/fault"
)

// TestReference: the pages of shared/docs/reference match the tables in the code that they are made from. Those of
// settings and metrics, which only running programs have, are made by scripts/e2e and scripts/monitoring.
func TestReference(t *testing.T) {
	reference.Check(t, "rules", "routes.md", "coordinator/httpapi/routes.go and openapi*.go", routesPage(t))
	reference.Check(t, "rules", "errors.md", "shared/fault/table.go", errorsPage())
	reference.Check(t, "rules", "records.md", "nats/subject/table.go, shared/run/record.go and "+
		"shared/runnerapi/*.go", recordsPage(t))
}

// object is a JSON object of the OpenAPI document.
type object = map[string]any

// routesPage makes the page of routes from what the API itself lists.
func routesPage(t *testing.T) string {
	api := httpapi.New(httpapi.Config{})
	get := func(path string, into any) {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", path, nil)
		r.Host = "127.0.0.1"
		api.ServeHTTP(w, r)
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			t.Fatalf("%s: %d %v", path, w.Code, err)
		}
	}
	var list struct {
		Routes []struct {
			Method, Path, What string
			Query              []string
		}
	}
	var doc struct {
		Paths      map[string]map[string]object
		Components struct{ Schemas map[string]object }
	}
	get("/", &list)
	get("/openapi.json", &doc)
	var b strings.Builder
	var requests, takenBy []string // tables of members, and the routes that take them
	b.WriteString("# Routes\n\nWhat each route does, with its query, bodies and answers: for looking up. " +
		"[http.md](../http.md) says what holds for all, with examples. `GET /openapi.json` has the same for " +
		"programs. `scope` is what an API token needs, `session` what a [session token](../http.md#authorization) " +
		"may do.\n\n")
	var rows [][]string
	parameters := map[string]object{}
	for _, r := range list.Routes {
		path := openPath(r.Path)
		op := doc.Paths[path][strings.ToLower(r.Method)]
		rule := access.RuleOf(r.Method, r.Path)
		params, _ := op["parameters"].([]any)
		for _, p := range params {
			parameters[p.(object)["name"].(string)+" "+p.(object)["in"].(string)] = p.(object)
		}
		rows = append(rows, []string{"`" + r.Method + " " + path + "`", rule.Scope.String(), rule.Session.String(),
			r.What, reference.Codes(r.Query), answers(op)})
		if body, ok := op["requestBody"].(object); ok {
			schema, _ := at(body, "content", "application/json", "schema").(object)
			if members := membersTable(schema); members != "" {
				i := slices.Index(requests, members)
				if i < 0 {
					i, requests, takenBy = len(requests), append(requests, members), append(takenBy, "")
				}
				takenBy[i] += ", " + r.Method + " " + path
			}
		}
	}
	b.WriteString(reference.Table([]string{"route", "scope", "session", "does", "query", "answers"}, rows))
	b.WriteString("\n## Parameters\n")
	rows = nil
	for _, key := range slices.Sorted(maps.Keys(parameters)) {
		p := parameters[key]
		text, _ := p["description"].(string)
		rows = append(rows, []string{reference.Code(p["name"].(string)), p["in"].(string), typeOf(p["schema"]), text})
	}
	b.WriteString(reference.Table([]string{"name", "in", "type", ""}, rows))
	b.WriteString("\n## Bodies of requests\nUnknown members are refused.\n")
	for i, members := range requests {
		fmt.Fprintf(&b, "\n### %s\n%s", strings.TrimPrefix(takenBy[i], ", "), members)
	}
	b.WriteString("\n## Bodies of answers\n")
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas)) {
		fmt.Fprintf(&b, "\n### %s\n%s", name, membersTable(doc.Components.Schemas[name]))
	}
	return b.String()
}

// openPath returns a path with its parameters in braces.
func openPath(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if name, ok := strings.CutPrefix(p, ":"); ok {
			parts[i] = "{" + name + "}"
		}
	}
	return strings.Join(parts, "/")
}

// at returns the value at a path of members; nil: there is none.
func at(v any, path ...string) any {
	for _, name := range path {
		o, _ := v.(object)
		v = o[name]
	}
	return v
}

// answers lists the statuses of a route with their bodies.
func answers(op object) string {
	var all []string
	responses, _ := op["responses"].(object)
	for _, code := range slices.Sorted(maps.Keys(responses)) {
		if code == "default" {
			continue
		}
		text := code
		content, _ := at(responses[code], "content").(object)
		for _, kind := range slices.Sorted(maps.Keys(content)) {
			if kind != "application/json" {
				text += " `" + kind + "`"
			} else if body := typeOf(at(content[kind], "schema")); body != "any" {
				text += " " + body
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// membersTable describes the members of an object; empty: it has none.
func membersTable(schema object) string {
	properties, _ := schema["properties"].(object)
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		text, _ := at(properties[name], "description").(string)
		if required, _ := schema["required"].([]any); schema["additionalProperties"] == false &&
			slices.Contains(required, any(name)) {
			text = strings.TrimSuffix("required; "+text, "; ")
		}
		rows = append(rows, []string{reference.Code(name), typeOf(properties[name]), text})
	}
	if rows == nil {
		return ""
	}
	return reference.Table([]string{"member", "type", ""}, rows)
}

// typeOf describes a JSON Schema in a few words.
func typeOf(schema any) string {
	s, _ := schema.(object)
	if ref, ok := s["$ref"].(string); ok {
		name := ref[strings.LastIndex(ref, "/")+1:]
		return "[" + name + "](#" + strings.ToLower(name) + ")"
	}
	if values, ok := s["enum"].([]any); ok {
		return reference.Codes(texts(values))
	}
	if options, ok := s["anyOf"].([]any); ok {
		var all []string
		for _, o := range options {
			all = append(all, typeOf(o))
		}
		return strings.Join(all, " or ")
	}
	if properties, ok := s["properties"].(object); ok {
		return "`{" + strings.Join(slices.Sorted(maps.Keys(properties)), ", ") + "}`"
	}
	switch kind, _ := s["type"].(string); {
	case kind == "array":
		return "list of " + typeOf(s["items"])
	case kind == "string" && s["format"] == "date-time":
		return "time"
	case kind != "":
		return kind
	}
	return "any"
}

func texts(values []any) (all []string) {
	for _, v := range values {
		all = append(all, fmt.Sprint(v))
	}
	return all
}

// errorsPage makes the page of error codes.
func errorsPage() string {
	var answered, ends [][]string
	for _, r := range fault.Answers {
		answered = append(answered, []string{r.HTTP, reference.Codes(r.Codes), r.Means})
	}
	for _, r := range fault.Ends {
		ends = append(ends, []string{reference.Codes(r.Codes), r.Means})
	}
	return "# Error codes\n\nThe code is for programs, the message for people. " +
		"[http.md](../http.md#errors) shows the form, and what may be tried again.\n\n" +
		"## Answers\n" + reference.Table([]string{"HTTP", "code", "when"}, answered) +
		"\n## Ends of runs\nThe `error` of a failed or stopped run has one of these codes, or one of its executor's: " +
		"[Claude Code](../claude-code.md#errors), [ao-llm-exec](../llm.md#errors), or " +
		"[your own](../executors.md).\n\n" + reference.Table([]string{"code", "the run"}, ends)
}

// recordsPage makes the page of subjects and of what goes over them.
func recordsPage(t *testing.T) string {
	var b strings.Builder
	b.WriteString("# Records and messages in NATS\n\nEvery subject and bucket, and the members of what goes over " +
		"them: for looking up. [protocol.md](../protocol.md) says how they work together, with examples. " +
		"`<p>` is the partition, `<key>` the attempt's key.\n\n## The stream RUNS\n")
	list := func(rows []subject.Row) {
		var cells [][]string
		for _, r := range rows {
			body := ""
			if r.Body != "" {
				body = "[" + r.Body + "](#" + strings.ToLower(r.Body) + ")"
			}
			cells = append(cells, []string{reference.Code(r.Name), r.Means, body, r.By})
		}
		b.WriteString(reference.Table([]string{"subject", "", "body", "written by"}, cells))
	}
	list(subject.Records)
	b.WriteString("\n## Other subjects\n")
	list(subject.Messages)
	b.WriteString("\n## Buckets\nCoordinators read them.\n\n")
	var stores [][]string
	for _, r := range subject.Stores {
		stores = append(stores, []string{reference.Code(r.Name), r.Means})
	}
	b.WriteString(reference.Table([]string{"bucket", "key → value"}, stores))
	b.WriteString("\n## Members\nBodies are JSON. `?` marks members that may be absent.\n")
	types := structs(t, "shared/run/record.go", "shared/runnerapi/messages.go", "shared/runnerapi/runner.go")
	var links []string
	for _, s := range types {
		links = append(links, "| "+s.name+" |", "| ["+s.name+"](#"+strings.ToLower(s.name)+") |",
			"list of "+s.name+" |", "list of ["+s.name+"](#"+strings.ToLower(s.name)+") |")
	}
	linked := strings.NewReplacer(links...)
	for _, s := range types {
		fmt.Fprintf(&b, "\n### %s\n%s\n\n%s", s.name, s.doc,
			linked.Replace(reference.Table([]string{"member", "type", ""}, s.members)))
	}
	for _, r := range slices.Concat(subject.Records, subject.Messages) {
		if r.Body != "" && !slices.ContainsFunc(types, func(s structure) bool { return s.name == r.Body }) {
			t.Errorf("%s: there is no type %s", r.Name, r.Body)
		}
	}
	return b.String()
}

// structure is a struct that is stored or sent as JSON.
type structure struct {
	name, doc string
	members   [][]string
}

// structs reads the structs of files that have JSON members.
func structs(t *testing.T, files ...string) (all []structure) {
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), "../../"+path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			d, ok := decl.(*ast.GenDecl)
			for i := 0; ok && i < len(d.Specs); i++ {
				if s, ok := d.Specs[i].(*ast.TypeSpec); ok {
					if m := members(s); m != nil {
						all = append(all, structure{s.Name.Name, strings.Join(strings.Fields(d.Doc.Text()), " "), m})
					}
				}
			}
		}
	}
	return all
}

// members returns the JSON members of a struct, with their comments; nil: it has none.
func members(s *ast.TypeSpec) (rows [][]string) {
	body, ok := s.Type.(*ast.StructType)
	if !ok {
		return nil
	}
	for _, field := range body.Fields.List {
		if len(field.Names) == 0 {
			name := typeText(field.Type)
			rows = append(rows, []string{"all of [" + name + "](#" + strings.ToLower(name) + ")", "", ""})
			continue
		}
		if field.Tag == nil {
			continue
		}
		tag := reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("json")
		name, options, _ := strings.Cut(tag, ",")
		if name == "" || name == "-" {
			continue
		}
		mark := ""
		if options != "" {
			mark = "?"
		}
		text := described(field.Names[0].Name, field.Doc.Text()+" "+field.Comment.Text())
		rows = append(rows, []string{reference.Code(name) + mark, typeText(field.Type), text})
	}
	return rows
}

// typeText describes a Go type as JSON.
func typeText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeText(e.X)
	case *ast.ArrayType:
		if x := typeText(e.Elt); x != "byte" {
			return "list of " + x
		}
		return "base64"
	case *ast.MapType:
		return "object of " + typeText(e.Value)
	case *ast.SelectorExpr:
		switch name := e.Sel.Name; name {
		case "RawMessage":
			return "any"
		case "Time":
			return "time"
		case "Duration":
			return "number"
		default:
			return name
		}
	case *ast.Ident:
		switch e.Name {
		case "int", "int64", "uint64":
			return "number"
		case "bool":
			return "boolean"
		}
		return e.Name
	}
	return ""
}

// described returns a comment as one line, without the Go name that it begins with.
func described(name, comment string) string {
	text := strings.Join(strings.Fields(comment), " ")
	for _, begin := range []string{" is ", " are ", ": "} {
		text = strings.TrimPrefix(text, name+begin)
	}
	return strings.ReplaceAll(text, "nil: ", "absent: ")
}
