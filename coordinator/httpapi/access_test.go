package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"ao/coordinator/access"
)

// rights is who may do what: the route, the scope of an API token, and what a session token may do.
const rights = `
GET /                         read  nothing
GET /openapi.json             read  nothing
GET /health                   open  shared
GET /ready                    open  shared
GET /ledger                   read  nothing
POST /ledger/accept           admin nothing
GET /status                   read  nothing
GET /doctor                   admin nothing
GET /audit                    admin nothing
GET /rejected                 admin nothing
GET /settings                 admin nothing
GET /metrics                  read  nothing
GET /me                       read  shared
POST /login                   open  nothing
POST /logout                  open  nothing
POST /login/codes             read  nothing
GET /ui                       open  shared
GET /ui/*path                 open  shared
POST /runs                    run   submits
POST /runs/validate           read  submits
GET /runs                     read  lists
GET /runs/count               read  lists
GET /runs/:id                 read  reads
GET /runs/:id/definition      read  reads
GET /runs/:id/explain         read  reads
GET /runs/:id/result          read  reads
GET /runs/:id/wait            read  reads
POST /runs/stop               run   nothing
POST /runs/retry              run   nothing
POST /runs/:id/retry          run   reads
POST /runs/:id/stop           run   acts
GET /sessions                 read  lists
GET /sessions/:id             read  reads
GET /sessions/:id/status      read  reads
GET /sessions/:id/result      read  reads
GET /sessions/:id/events      read  reads
POST /sessions/:id/stop       run   acts
DELETE /sessions/:id          admin nothing
GET /sessions/:id/tree        read  reads
GET /sse/sessions             read  lists
GET /sse/runs                 read  lists
GET /callbacks                read  nothing
POST /callbacks/redeliver     run   nothing
POST /callbacks/:id/redeliver run   nothing
GET /agents                   read  shared
POST /agents                  admin nothing
POST /agents/preview          read  nothing
GET /agents/:name             read  shared
PATCH /agents/:name           admin nothing
POST /agents/:name/reset      admin nothing
DELETE /agents/:name          admin nothing
GET /agents/:name/drafts/:side admin nothing
PUT /agents/:name/drafts/:side admin nothing
DELETE /agents/:name/drafts/:side admin nothing
GET /schemas                  read  shared
POST /schemas                 admin nothing
POST /schemas/validate        read  nothing
GET /schemas/:name            read  shared
DELETE /schemas/:name         admin nothing
GET /runners                  read  nothing
DELETE /runners/:id           admin nothing
POST /runner/register         admin nothing
POST /mcp                     read  shared
`

// TestEveryRouteHasARule walks the router: a route without a row is seen here, and a row without a route.
func TestEveryRouteHasARule(t *testing.T) {
	a := New(Config{})
	words := map[access.Right]string{access.Nothing: "nothing", access.Shared: "shared", access.Submits: "submits",
		access.Lists: "lists", access.Reads: "reads", access.Acts: "acts"}
	drawn := map[string]bool{}
	for _, r := range a.engine.Routes() {
		at := r.Method + " " + r.Path
		if r.Method == http.MethodHead {
			if _, ok := access.Rules["GET "+r.Path]; !ok {
				t.Errorf("%s has no row in access.Rules", at)
			}
			continue
		}
		rule, ok := access.Rules[at]
		if !ok {
			t.Errorf("%s has no row in access.Rules", at)
			continue
		}
		drawn[fmt.Sprintf("%-29s %-5s %s", at, rule.Scope, words[rule.Session])] = true
	}
	if len(drawn) != len(access.Rules) {
		t.Errorf("%d routes, %d rows", len(drawn), len(access.Rules))
	}
	for line := range strings.Lines(strings.TrimSpace(rights)) {
		line = strings.TrimSpace(line)
		if !drawn[line] {
			t.Errorf("not so: %s", line)
		}
		delete(drawn, line)
	}
	for line := range drawn {
		t.Errorf("not in the picture: %s", line)
	}
	if missing := access.RuleOf("PUT", "/new"); missing != (access.Rule{Scope: access.Admin, Session: access.Nothing}) {
		t.Errorf("a route without a row: %v", missing)
	}
	if !slices.ContainsFunc(a.routes, func(r route) bool { return r.Path == "/mcp" }) {
		t.Error("GET / does not tell of /mcp")
	}
}
