package httpapi

import (
	"encoding/json"
	"maps"
	"reflect"

	"ao/coordinator/agents"
	"ao/coordinator/audit"
	"ao/coordinator/control/webhook"
	"ao/coordinator/health"
	"ao/coordinator/insight/explain"
	insight "ao/coordinator/insight/status"
	"ao/coordinator/ledger"
	"ao/coordinator/preview"
	"ao/coordinator/projection/query"
	"ao/coordinator/rejected"
	"ao/coordinator/runners"
	"ao/coordinator/runs"
	"ao/coordinator/schemas"
	"ao/coordinator/sessions"
	"ao/shared/agent"
	"ao/shared/config"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// body describes what a route reads and answers, as values of the types.
type body struct {
	in   any      // nil: no body
	out  any      // with the route's usual code; nil: no body
	may  bool     // in is optional
	must []string // required members of in
	not  []string // members of in that only answers have
	more obj      // further members of in
	also map[int]any

	stream bool // answers as text/event-stream, too
	plain  bool // some errors are plain text
	file   bool // with download=true the answer is a file
	export bool // with another format the answer is a file of all matches
}

// either is an answer of one of several types.
type either []any

func (b body) answers(ok int) map[int]any {
	all := map[int]any{ok: b.out}
	maps.Copy(all, b.also)
	return all
}

// mediaType is an answer that is not JSON.
type mediaType string

type (
	agentList struct {
		Agents []agentOrBad `json:"agents"`
	}
	agentOrBad struct{} // a definition, or a file that cannot be used: status=broken
	schemaList struct {
		Schemas []schemas.Listed `json:"schemas"`
	}
	runnerList struct {
		Runners []runners.View `json:"runners"`
	}
	eventList struct {
		Events []run.Event `json:"events"`
		Next   string      `json:"next"`
	}
	statusOf struct {
		ID     string            `json:"session_id"`
		Status run.SessionStatus `json:"status"`
	}
	drained struct {
		ID     string `json:"runner_id"`
		Status string `json:"status"`
	}
	index struct {
		Name   string  `json:"name"`
		Routes []route `json:"routes"`
	}
	anything = json.RawMessage
)

// bodies has a row for each route.
var bodies = map[string]body{
	"GET /":             {out: index{}},
	"GET /openapi.json": {out: anything{}},
	"GET /health":       {out: condition{}},
	"GET /ready":        {out: condition{}},
	"GET /status":       {out: insight.Status{}},
	"GET /doctor":       {out: health.Report{}},
	"GET /audit":        {out: audit.Page{}},
	"GET /rejected":     {out: rejected.Page{}},
	"GET /settings":     {out: settingList{}},
	"GET /metrics":      {out: mediaType("text/plain")},
	"GET /ledger":       {out: ledger.Report{}},

	"POST /ledger/accept": {out: ledger.Accepted{}},

	"GET /me":           {out: me{}},
	"POST /login":       {in: credentials{}, out: me{}},
	"POST /logout":      {},
	"POST /login/codes": {out: loginCode{}},

	"POST /runs": {in: run.Request{}, out: runs.Accepted{},
		also: map[int]any{200: runs.Outcome{}, 202: either{runs.WaitTimeout{}, runs.Accepted{}}}, stream: true},
	"POST /runs/validate":      {in: run.Request{}, out: either{runs.Validation{}, report{}}},
	"GET /runs":                {out: query.Page{}, export: true},
	"GET /runs/count":          {out: query.Count{}},
	"GET /runs/:id":            {out: run.Run{}},
	"GET /runs/:id/definition": {out: runs.Definition{}},
	"GET /runs/:id/explain":    {out: explain.Explanation{}},
	"GET /runs/:id/result":     {out: shortResult{}, file: true},
	"GET /runs/:id/wait":       {out: runs.Outcome{}, also: map[int]any{202: run.Run{}}},
	"POST /runs/stop":          {in: stopMany{}, more: asMembers(runFilters), out: runs.BulkResult{}},
	"POST /runs/retry":         {in: retryMany{}, more: asMembers(runFilters), out: runs.BulkResult{}},
	"POST /runs/:id/retry": {in: run.Request{}, may: true, more: obj{"in": obj{"enum": []string{runs.InNewSession,
		runs.InSameSession}, "description": "in a new session (default), or as a further turn of the run's session"}},
		not: []string{"type"}, out: runs.Accepted{}, also: map[int]any{
			200: runs.Outcome{}, 202: either{runs.WaitTimeout{}, runs.Accepted{}}}, stream: true},
	"POST /runs/:id/stop": {in: stop{}, may: true, out: runs.StoppedRun{}},

	"GET /sessions":                 {out: query.SessionPage{}},
	"GET /sessions/:id":             {out: sessions.SessionDetail{}},
	"GET /sessions/:id/status":      {out: statusOf{}},
	"GET /sessions/:id/result":      {out: shortResult{}, file: true},
	"GET /sessions/:id/events":      {out: eventList{}, file: true},
	"POST /sessions/:id/stop":       {in: sessions.Stop{}, may: true, out: sessions.SessionDetail{}},
	"DELETE /sessions/:id":          {},
	"GET /sessions/:id/tree":        {out: query.TreePage{}},
	"GET /sse/sessions":             {stream: true},
	"GET /sse/runs":                 {stream: true},
	"GET /callbacks":                {out: query.CallbackPage{}},
	"POST /callbacks/redeliver":     {in: redeliverMany{}, more: asMembers(filters), out: runs.BulkResult{}},
	"POST /callbacks/:id/redeliver": {out: run.Run{}},

	"GET /agents": {out: agentList{}},
	"POST /agents": {in: agent.Blueprint{}, out: agents.View{}, must: []string{"name"},
		not: []string{"command", "runner_id", "created_at", "modified_at"}, more: agentAliases},
	"POST /agents/preview": {in: preview.AgentRequest{}, out: either{preview.AgentPreview{}, report{}}},
	"GET /agents/:name":    {out: agents.View{}, also: map[int]any{304: nil}},
	"PATCH /agents/:name": {in: agent.Blueprint{}, out: agents.View{}, not: []string{"name", "command", "runner_id",
		"created_at", "modified_at"}, more: agentAliases},
	"POST /agents/:name/reset": {out: agents.View{}},
	"DELETE /agents/:name":     {},

	"GET /agents/:name/drafts/:side":    {out: mediaType("text/plain")},
	"PUT /agents/:name/drafts/:side":    {in: mediaType("text/plain")},
	"DELETE /agents/:name/drafts/:side": {},

	"GET /schemas": {out: schemaList{}},
	"POST /schemas": {in: schemas.Schema{}, out: schemas.Row{}, must: []string{"name", "schema"},
		not: []string{"created_at", "modified_at"}},
	"POST /schemas/validate": {in: preview.SchemaRequest{}, out: preview.SchemaVerdict{}},
	"GET /schemas/:name":     {out: schemas.Row{}},
	"DELETE /schemas/:name":  {},

	"GET /runners":          {out: runnerList{}},
	"DELETE /runners/:id":   {out: drained{}},
	"POST /runner/register": {in: registration{}, out: registered{}, must: []string{"hostname", "executor_profile"}},

	"POST /mcp": {in: anything{}, out: anything{}, also: map[int]any{202: nil, 400: anything{}, 404: anything{}},
		stream: true, plain: true},
}

var agentAliases = obj{
	"default_output_schema":         obj{"description": "an alias of output_schema"},
	"default_output_schema_options": obj{"description": "an alias of output_schema_options"},
}

// names are the names of schemas in the document.
var names = map[reflect.Type]string{
	reflect.TypeFor[fault.Fault]():             "Error",
	reflect.TypeFor[run.Run]():                 "Run",
	reflect.TypeFor[runs.Outcome]():            "RunWithResult",
	reflect.TypeFor[run.Result]():              "Result",
	reflect.TypeFor[run.Session]():             "Session",
	reflect.TypeFor[run.Event]():               "Event",
	reflect.TypeFor[run.Demands]():             "Demands",
	reflect.TypeFor[run.CallbackState]():       "Callback",
	reflect.TypeFor[run.Output]():              "Output",
	reflect.TypeFor[run.OutputOptions]():       "OutputOptions",
	reflect.TypeFor[runs.Accepted]():           "Accepted",
	reflect.TypeFor[runs.BulkResult]():         "Done",
	reflect.TypeFor[runs.Below]():              "OpenBelow",
	reflect.TypeFor[runs.WaitTimeout]():        "Late",
	reflect.TypeFor[runs.Validation]():         "Validation",
	reflect.TypeFor[report]():                  "Report",
	reflect.TypeFor[runs.Definition]():         "Definition",
	reflect.TypeFor[runners.View]():            "Runner",
	reflect.TypeFor[schemas.Listed]():          "ListedOutputSchema",
	reflect.TypeFor[schemas.Row]():             "OutputSchema",
	reflect.TypeFor[agents.View]():             "Agent",
	reflect.TypeFor[agent.BrokenFile]():        "BrokenAgent",
	reflect.TypeFor[ledger.Report]():           "Ledger",
	reflect.TypeFor[health.Report]():           "HealthReport",
	reflect.TypeFor[audit.Entry]():             "AuditEntry",
	reflect.TypeFor[audit.Gap]():               "AuditGap",
	reflect.TypeFor[config.EffectiveSetting](): "Setting",
	reflect.TypeFor[me]():                      "Me",
	reflect.TypeFor[rejected.Message]():        "RejectedMessage",
	reflect.TypeFor[webhook.Payload]():         "WebhookBody",

	reflect.TypeFor[explain.Explanation]():    "Explanation",
	reflect.TypeFor[explain.Obstacle]():       "Obstacle",
	reflect.TypeFor[explain.Candidate]():      "Candidate",
	reflect.TypeFor[explain.Step]():           "Step",
	reflect.TypeFor[explain.Rejected]():       "RejectedAnswer",
	reflect.TypeFor[insight.Status]():         "Status",
	reflect.TypeFor[insight.QueueStatus]():    "Queue",
	reflect.TypeFor[runs.StoppedRun]():        "StoppedRun",
	reflect.TypeFor[sessions.SessionDetail](): "SessionDetail",
	reflect.TypeFor[shortResult]():            "ResultOrPart",
	reflect.TypeFor[preview.AgentPreview]():   "AgentPreview",
	reflect.TypeFor[preview.SchemaVerdict]():  "SchemaVerdict",
	reflect.TypeFor[preview.AnswerVerdict]():  "AnswerVerdict",
	reflect.TypeFor[query.Page]():             "RunPage",
	reflect.TypeFor[query.SessionPage]():      "SessionPage",
	reflect.TypeFor[query.CallbackPage]():     "CallbackPage",
	reflect.TypeFor[audit.Page]():             "AuditPage",
	reflect.TypeFor[rejected.Page]():          "RejectedPage",
	reflect.TypeFor[runnerapi.Unable]():       "Unable",
	reflect.TypeFor[agent.UnusedFile]():       "UnusedFile",
	reflect.TypeFor[preview.Candidate]():      "AnswerCandidate",

	reflect.TypeFor[query.TreeSession](): "TreeSession",
	reflect.TypeFor[query.TreeRun]():     "TreeRun",
	reflect.TypeFor[query.TreeAttempt](): "TreeAttempt",
}

// alike are types that are described like a named one.
var alike = map[reflect.Type]string{reflect.TypeFor[agent.Blueprint](): "Agent",
	reflect.TypeFor[schemas.Schema](): "OutputSchema", reflect.TypeFor[run.Request](): "Request"}

// enums are the types with a fixed set of values.
var enums = map[reflect.Type][]string{
	reflect.TypeFor[run.Status](): {string(run.Pending), string(run.Claimed), string(run.Running),
		string(run.Stopping), string(run.Completed), string(run.Failed), string(run.Stopped)},
	reflect.TypeFor[run.SessionStatus](): {"pending", "running", "idle", "stopping", "finished", "failed", "stopped"},
}
