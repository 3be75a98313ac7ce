package access

// Right is what a session token may do on a route.
type Right uint8

// The rights.
const (
	Nothing Right = iota
	Shared        // what belongs to no session
	Submits       // runs: its own children, and turns of sessions below it
	Lists         // its children, or the runs of a session that it may read
	Reads         // its own session and those below it
	Acts          // sessions below it
)

var rights = [...]string{Nothing: "", Shared: "yes", Submits: "children, and turns below it",
	Lists: "its children, or a session that it may read", Reads: "its own and those below", Acts: "those below it"}

// String says to a person what the right allows.
func (r Right) String() string { return rights[r] }

// Rule is what a route requires.
type Rule struct {
	Scope   Scope // of an API token
	Session Right // of a session token
}

// Rules has every route of the HTTP API as its router names it. HEAD counts as GET. A route that is missing requires
// scope admin; a test checks that none is.
var Rules = map[string]Rule{
	"GET /":               {Read, Nothing},
	"GET /openapi.json":   {Read, Nothing},
	"GET /health":         {Open, Shared},
	"GET /ready":          {Open, Shared},
	"GET /ledger":         {Read, Nothing},
	"GET /status":         {Read, Nothing},
	"POST /ledger/accept": {Admin, Nothing},
	"GET /doctor":         {Admin, Nothing},
	"GET /audit":          {Admin, Nothing},
	"GET /rejected":       {Admin, Nothing},
	"GET /settings":       {Admin, Nothing},
	"GET /metrics":        {Read, Nothing},

	"GET /me":           {Read, Shared},
	"POST /login":       {Open, Nothing}, // it asks for the token itself
	"POST /logout":      {Open, Nothing},
	"POST /login/codes": {Read, Nothing},

	"GET /ui":       {Open, Shared}, // the dashboard's files, the same for everybody
	"GET /ui/*path": {Open, Shared},

	"POST /runs":               {Run, Submits},
	"POST /runs/validate":      {Read, Submits},
	"GET /runs":                {Read, Lists},
	"GET /runs/count":          {Read, Lists},
	"GET /runs/:id":            {Read, Reads},
	"GET /runs/:id/definition": {Read, Reads},
	"GET /runs/:id/explain":    {Read, Reads},
	"GET /runs/:id/result":     {Read, Reads},
	"GET /runs/:id/wait":       {Read, Reads},
	"POST /runs/stop":          {Run, Nothing},
	"POST /runs/retry":         {Run, Nothing},
	"POST /runs/:id/retry":     {Run, Reads}, // and the request is checked like one that it submits
	"POST /runs/:id/stop":      {Run, Acts},

	"GET /sessions":            {Read, Lists},
	"GET /sessions/:id":        {Read, Reads},
	"GET /sessions/:id/status": {Read, Reads},
	"GET /sessions/:id/result": {Read, Reads},
	"GET /sessions/:id/events": {Read, Reads},
	"POST /sessions/:id/stop":  {Run, Acts},
	"DELETE /sessions/:id":     {Admin, Nothing},
	"GET /sessions/:id/tree":   {Read, Reads},
	"GET /sse/sessions":        {Read, Lists},
	"GET /sse/runs":            {Read, Lists},

	"GET /callbacks":                {Read, Nothing},
	"POST /callbacks/redeliver":     {Run, Nothing},
	"POST /callbacks/:id/redeliver": {Run, Nothing},

	"GET /agents":          {Read, Shared},
	"POST /agents":         {Admin, Nothing},
	"POST /agents/preview": {Read, Nothing},
	"GET /agents/:name":    {Read, Shared},
	"PATCH /agents/:name":  {Admin, Nothing},
	"DELETE /agents/:name": {Admin, Nothing},

	"POST /agents/:name/reset": {Admin, Nothing},

	"GET /agents/:name/drafts/:side":    {Admin, Nothing},
	"PUT /agents/:name/drafts/:side":    {Admin, Nothing},
	"DELETE /agents/:name/drafts/:side": {Admin, Nothing},

	"GET /schemas":           {Read, Shared},
	"POST /schemas":          {Admin, Nothing},
	"POST /schemas/validate": {Read, Nothing},
	"GET /schemas/:name":     {Read, Shared},
	"DELETE /schemas/:name":  {Admin, Nothing},

	"GET /runners":          {Read, Nothing},
	"DELETE /runners/:id":   {Admin, Nothing},
	"POST /runner/register": {Admin, Nothing},

	"POST /mcp": {Read, Shared}, // each tool has its own rule
}

// RuleOf returns the rule of a route. An unknown route has no path.
func RuleOf(method, path string) Rule {
	if method == "HEAD" {
		method = "GET"
	}
	if path == "" {
		return Rule{Read, Shared}
	}
	if r, ok := Rules[method+" "+path]; ok {
		return r
	}
	return Rule{Admin, Nothing}
}
