package rules

import (
	"go/ast"
	"path"
	"slices"
	"strings"
)

// packageImports says which of our packages a package may import. The row with the closest pattern applies. The
// layers are shared ← nats ← {coordinator, worker} ← scripts; coordinator and worker share only messages. Within
// shared, a row may use only the rows above it.
var packageImports = []struct {
	room string
	may  []string
}{
	{"ao/shared/fault", nil},
	{"ao/shared/strictjson", []string{"ao/shared/fault"}},
	{"ao/shared/config", []string{"ao/shared/version", "ao/shared/fault"}},
	{"ao/shared/clock", nil},
	{"ao/shared/share", nil},
	{"ao/shared/clock/clocktest", nil},
	{"ao/shared/tlsroots", []string{"ao/shared/fault"}},
	{"ao/shared/version", nil},
	{"ao/shared/httpserver", nil},
	{"ao/shared/metric", []string{"ao/shared/version", "ao/shared/httpserver", "ao/shared/config"}},
	{"ao/shared/metric/metrictest", nil},
	{"ao/shared/schema", []string{"ao/shared/fault", "ao/shared/strictjson"}},
	{"ao/shared/run", []string{"ao/shared/fault", "ao/shared/strictjson"}},
	{"ao/shared/agent", []string{"ao/shared/fault", "ao/shared/strictjson", "ao/shared/schema", "ao/shared/run"}},
	{"ao/shared/runnerapi", []string{"ao/shared/fault", "ao/shared/strictjson", "ao/shared/schema", "ao/shared/run",
		"ao/shared/agent"}},
	{"ao/shared/executor", []string{"ao/shared/fault", "ao/shared/strictjson", "ao/shared/run"}},
	{"ao/shared/executor/conformance", []string{"ao/shared/run", "ao/shared/strictjson", "ao/shared/executor"}},
	{"ao/shared/prompt", []string{"ao/shared/fault", "ao/shared/strictjson", "ao/shared/run", "ao/shared/executor"}},
	{"ao/shared/outputschema", []string{"ao/shared/fault", "ao/shared/strictjson", "ao/shared/run", "ao/shared/schema",
		"ao/shared/prompt"}},
	{"ao/shared/trace", []string{"ao/shared/fault", "ao/shared/run"}},
	{"ao/shared/trace/otlp", []string{"ao/shared/trace"}},
	{"ao/shared/clients/go", nil},

	{"ao/nats/subject", []string{"ao/shared/fault"}},
	{"ao/nats/stream", []string{"ao/shared/..."}},
	{"ao/nats/users", []string{"ao/nats/subject", "ao/shared/run"}},
	{"ao/nats/disk", nil},
	{"ao/nats/embed", []string{"ao/shared/...", "ao/nats/users", "ao/nats/disk"}},
	{"ao/nats/natstest", []string{"ao/shared/...", "ao/nats/..."}},
	{"ao/nats/bus", []string{"ao/shared/...", "ao/nats/stream", "ao/nats/subject"}},
	{"ao/nats/backup", []string{"ao/shared/fault", "ao/shared/strictjson", "ao/nats/bus", "ao/nats/subject"}},

	{"ao/coordinator/serve/parts", []string{"ao/shared/...", "ao/nats/bus", "ao/nats/subject",
		"ao/coordinator/agents", "ao/coordinator/runners", "ao/coordinator/runs", "ao/coordinator/schemas",
		"ao/coordinator/sessions", "ao/coordinator/audit", "ao/coordinator/health", "ao/coordinator/control/...",
		"ao/coordinator/drafts", "ao/coordinator/payload", "ao/coordinator/preview", "ao/coordinator/projection",
		"ao/coordinator/projection/follow", "ao/coordinator/projection/query", "ao/coordinator/projection/state",
		"ao/coordinator/ledger", "ao/coordinator/highwater", "ao/coordinator/logins", "ao/coordinator/record",
		"ao/coordinator/workerapi", "ao/coordinator/insight/..."}},
	{"ao/coordinator/coordinatortest", []string{"ao/shared/...", "ao/nats/...", "ao/coordinator/..."}},
	{"ao/coordinator/budget", []string{"ao/shared/fault", "ao/shared/share"}},
	{"ao/coordinator/agents", []string{"ao/shared/...", "ao/nats/bus", "ao/coordinator/agents/agentfile"}},
	{"ao/coordinator/payload", []string{"ao/shared/...", "ao/nats/bus", "ao/nats/subject", "ao/coordinator/health",
		"ao/coordinator/projection/state"}},
	{"ao/coordinator/drafts", []string{"ao/shared/...", "ao/nats/bus"}},
	{"ao/coordinator/agents/agentfile", []string{"ao/shared/..."}},
	{"ao/coordinator/runners", []string{"ao/shared/...", "ao/nats/bus", "ao/nats/subject", "ao/coordinator/agents",
		"ao/coordinator/projection/state"}},
	{"ao/coordinator/runs", []string{"ao/shared/...", "ao/nats/bus", "ao/nats/subject", "ao/coordinator/agents",
		"ao/coordinator/budget", "ao/coordinator/projection/query", "ao/coordinator/projection/state",
		"ao/coordinator/schemas"}},
	{"ao/coordinator/sessions", []string{"ao/shared/...", "ao/nats/bus", "ao/nats/subject",
		"ao/coordinator/projection/query", "ao/coordinator/projection/state", "ao/coordinator/runs"}},
	{"ao/coordinator/schemas", []string{"ao/shared/...", "ao/nats/bus"}},
	{"ao/coordinator/preview", []string{"ao/shared/...", "ao/coordinator/agents", "ao/coordinator/insight/explain"}},
	{"ao/coordinator/projection/text", []string{"ao/shared/run"}},
	{"ao/coordinator/projection/scan", []string{"ao/shared/agent", "ao/shared/run", "ao/shared/strictjson"}},
	{"ao/coordinator/projection/state", []string{"ao/shared/...", "ao/nats/stream", "ao/nats/subject",
		"ao/coordinator/projection/scan", "ao/coordinator/projection/text"}},
	{"ao/coordinator/projection", []string{"ao/shared/...", "ao/nats/subject", "ao/coordinator/projection/state"}},
	{"ao/coordinator/projection/query", []string{"ao/shared/...", "ao/coordinator/budget", "ao/nats/stream",
		"ao/nats/subject", "ao/coordinator/projection", "ao/coordinator/projection/scan",
		"ao/coordinator/projection/state", "ao/coordinator/projection/text"}},
	{"ao/coordinator/projection/follow", []string{"ao/shared/...", "ao/nats/stream", "ao/nats/subject",
		"ao/coordinator/projection", "ao/coordinator/projection/state", "ao/coordinator/projection/text"}},
	{"ao/coordinator/projection/recordtest", []string{"ao/shared/...", "ao/nats/..."}},
	{"ao/coordinator/record", []string{"ao/shared/...", "ao/nats/bus", "ao/nats/subject", "ao/coordinator/payload",
		"ao/coordinator/projection/state"}},
	{"ao/coordinator/highwater", []string{"ao/shared/clock", "ao/shared/fault", "ao/shared/strictjson",
		"ao/nats/stream", "ao/nats/subject"}},
	{"ao/coordinator/ledger", []string{"ao/shared/...", "ao/coordinator/highwater", "ao/nats/bus", "ao/nats/subject"}},
	{"ao/coordinator/access", []string{"ao/shared/..."}},
	{"ao/coordinator/dashboard", nil},
	{"ao/coordinator/logins", []string{"ao/shared/...", "ao/nats/bus"}},
	{"ao/coordinator/health", []string{"ao/shared/fault", "ao/nats/bus"}},
	{"ao/coordinator/audit", []string{"ao/shared/...", "ao/nats/stream", "ao/coordinator/access"}},
	{"ao/coordinator/rejected", []string{"ao/shared/...", "ao/nats/bus", "ao/nats/stream", "ao/nats/subject"}},
	{"ao/coordinator/mcpapi", []string{"ao/shared/...", "ao/coordinator/access", "ao/coordinator/audit",
		"ao/coordinator/budget", "ao/coordinator/projection/query", "ao/coordinator/projection/state",
		"ao/coordinator/schemas", "ao/coordinator/insight/explain", "ao/coordinator/runs",
		"ao/coordinator/sessions"}},
	{"ao/coordinator/httpapi", []string{"ao/shared/...", "ao/coordinator/access", "ao/coordinator/agents",
		"ao/coordinator/audit", "ao/coordinator/budget", "ao/coordinator/health", "ao/coordinator/dashboard",
		"ao/coordinator/rejected", "ao/coordinator/projection/query", "ao/coordinator/projection/state",
		"ao/coordinator/ledger", "ao/coordinator/drafts", "ao/coordinator/mcpapi", "ao/coordinator/preview",
		"ao/coordinator/runners", "ao/coordinator/schemas", "ao/coordinator/control/webhook",
		"ao/coordinator/workerapi", "ao/coordinator/insight/explain", "ao/coordinator/insight/status",
		"ao/coordinator/runs", "ao/coordinator/sessions"}},
	{"ao/coordinator/workerapi", []string{"ao/shared/...", "ao/nats/bus", "ao/nats/subject", "ao/coordinator/audit",
		"ao/coordinator/payload", "ao/coordinator/projection/state", "ao/coordinator/runners"}},
	{"ao/coordinator/natsapi", []string{"ao/shared/...", "ao/nats/bus", "ao/nats/subject", "ao/coordinator/audit",
		"ao/coordinator/budget", "ao/coordinator/runs"}},
	{"ao/coordinator/control", []string{"ao/shared/clock"}},
	{"ao/coordinator/control/expiry", []string{"ao/shared/...", "ao/coordinator/projection/state"}},
	{"ao/coordinator/control/queues", []string{"ao/shared/...", "ao/nats/bus", "ao/nats/subject",
		"ao/coordinator/projection/state"}},
	{"ao/coordinator/control/retention", []string{"ao/shared/...", "ao/nats/bus", "ao/nats/subject",
		"ao/coordinator/projection/state"}},
	{"ao/coordinator/control/damage", []string{"ao/shared/...", "ao/nats/stream", "ao/nats/subject",
		"ao/coordinator/highwater", "ao/coordinator/projection/state"}},
	{"ao/coordinator/control/completion", []string{"ao/shared/...", "ao/nats/bus", "ao/nats/subject",
		"ao/coordinator/projection/state", "ao/coordinator/record"}},
	{"ao/coordinator/control/stopping", []string{"ao/shared/...", "ao/nats/bus", "ao/coordinator/projection/state"}},
	{"ao/coordinator/control/callback", []string{"ao/shared/...", "ao/nats/bus", "ao/coordinator/control",
		"ao/coordinator/control/pool", "ao/coordinator/projection/state", "ao/coordinator/record"}},
	{"ao/coordinator/control/resultcheck", []string{"ao/shared/...", "ao/nats/bus", "ao/nats/subject",
		"ao/coordinator/control", "ao/coordinator/control/pool", "ao/coordinator/projection/query",
		"ao/coordinator/projection/state", "ao/coordinator/record"}},
	{"ao/coordinator/control/webhook", []string{"ao/shared/...", "ao/nats/bus", "ao/nats/subject",
		"ao/coordinator/control", "ao/coordinator/control/pool", "ao/coordinator/projection/state",
		"ao/coordinator/record", "ao/coordinator/runs"}},
	{"ao/coordinator/control/dispatch", []string{"ao/shared/...", "ao/nats/bus", "ao/nats/subject",
		"ao/coordinator/agents", "ao/coordinator/control", "ao/coordinator/projection/state"}},
	{"ao/coordinator/control/lease", []string{"ao/shared/...", "ao/coordinator/control/pool",
		"ao/coordinator/projection/state"}},
	{"ao/coordinator/control/versions", []string{"ao/shared/...", "ao/nats/subject",
		"ao/coordinator/projection/state"}},
	{"ao/coordinator/insight/explain", []string{"ao/shared/...", "ao/nats/bus", "ao/nats/subject",
		"ao/coordinator/projection/query", "ao/coordinator/projection/state"}},
	{"ao/coordinator/insight/status", []string{"ao/shared/...", "ao/coordinator/insight/explain",
		"ao/coordinator/projection", "ao/coordinator/projection/state"}},
	{"ao/coordinator/insight/doctor", []string{"ao/shared/...", "ao/nats/bus", "ao/nats/subject",
		"ao/coordinator/health", "ao/coordinator/control/versions", "ao/coordinator/highwater",
		"ao/coordinator/payload", "ao/coordinator/projection/query"}},
	{"ao/coordinator/insight/metrics", []string{"ao/shared/...", "ao/nats/bus", "ao/nats/subject",
		"ao/coordinator/control/dispatch", "ao/coordinator/insight/status", "ao/coordinator/projection/state",
		"ao/coordinator/runners"}},
	{"ao/coordinator/serve", []string{"ao/shared/...", "ao/nats/bus", "ao/nats/embed", "ao/nats/subject",
		"ao/nats/users", "ao/coordinator/access", "ao/coordinator/audit", "ao/coordinator/budget",
		"ao/coordinator/health", "ao/coordinator/httpapi", "ao/coordinator/natsapi", "ao/coordinator/control/webhook",
		"ao/coordinator/insight/...", "ao/coordinator/ledger", "ao/coordinator/rejected",
		"ao/coordinator/serve/parts"}},
	{"ao/coordinator/cmd/coordinator", []string{"ao/shared/...", "ao/nats/...", "ao/coordinator/..."}},
	{"ao/coordinator/cmd/ao/...", []string{"ao/shared/...", "ao/nats/subject", "ao/nats/users", "ao/nats/disk",
		"ao/nats/backup", "ao/nats/bus", "ao/coordinator/access", "ao/coordinator/health",
		"ao/coordinator/cmd/ao/..."}},

	{"ao/worker", []string{"ao/shared/...", "ao/nats/bus", "ao/nats/subject", "ao/worker/..."}},
	{"ao/worker/process", []string{"ao/shared/..."}},
	{"ao/worker/claudecode/standin", []string{"ao/shared/strictjson", "ao/worker/process"}},
	{"ao/worker/...", []string{"ao/shared/...", "ao/worker/..."}},
	{"ao/worker/serve", []string{"ao/shared/...", "ao/nats/bus", "ao/nats/subject", "ao/worker/..."}},
	{"ao/worker/cmd/worker", []string{"ao/shared/...", "ao/nats/...", "ao/worker/..."}},

	{"ao/scripts/...", []string{"ao/..."}},
}

// inTests is what tests may import in addition: real servers, never mocks.
var inTests = []struct {
	room string
	may  []string
}{
	{"ao/shared/...", []string{"ao/shared/..."}},
	{"ao/nats/...", []string{"ao/shared/...", "ao/nats/..."}},
	{"ao/coordinator/...", []string{"ao/shared/...", "ao/nats/...", "ao/coordinator/..."}},
	{"ao/worker/...", []string{"ao/shared/...", "ao/nats/...", "ao/worker/..."}},
}

// technologyUsers says which packages may use a technology; all others use those packages.
var technologyUsers = []struct {
	what   string
	rooms  []string // in code
	tests  []string // in tests, in addition
	reason string
}{
	{"github.com/qri-io/...", []string{"ao/shared/schema"}, []string{"ao/scripts/..."},
		"its behaviour is mended behind shared/schema; a second user would see it unmended"},
	{"github.com/go-json-experiment/...", []string{"ao/shared/strictjson", "ao/shared/outputschema"}, nil,
		"what is JSON, and what of it we take, is said in one place"},
	{"github.com/santhosh-tekuri/...", nil, []string{"ao/scripts/...", "ao/coordinator/serve"},
		"it is the other opinion in tests, not a part of the product"},
	{"github.com/nats-io/nats.go/...", []string{"ao/nats/bus", "ao/nats/backup", "ao/nats/embed", "ao/nats/natstest",
		"ao/coordinator/natsapi", "ao/coordinator/serve", "ao/worker/serve", "ao/coordinator/cmd/...",
		"ao/worker/cmd/...", "ao/scripts/..."}, []string{"ao/nats/...", "ao/coordinator/...", "ao/worker/..."},
		"decisions know the bus, not the client library; only the bus acks"},
	{"github.com/nats-io/nats-server/...", []string{"ao/nats/embed", "ao/nats/natstest", "ao/scripts/..."},
		[]string{"ao/nats/..."},
		"a server in the process is nats/embed; whoever imports it makes every binary 15 MB larger"},
	{"github.com/nats-io/nkeys/...", []string{"ao/nats/users", "ao/nats/bus"}, nil,
		"who somebody is to NATS is made in one place, and read in one"},
	{"github.com/gin-gonic/...", []string{"ao/coordinator/httpapi"}, nil,
		"HTTP is a wall; behind it nobody knows how a request arrived"},
	{"github.com/gin-contrib/...", []string{"ao/coordinator/httpapi"}, nil,
		"HTTP is a wall; behind it nobody knows how a request arrived"},
	{"github.com/modelcontextprotocol/...", []string{"ao/coordinator/mcpapi", "ao/worker/llm/tools"},
		[]string{"ao/coordinator/serve", "ao/worker/llm"},
		"MCP is a wall like HTTP: one server, one client; tests speak to the server as clients do, over the SDK's own"},
	{"go.opentelemetry.io/...", []string{"ao/shared/trace", "ao/shared/trace/otlp"}, []string{"ao/scripts/e2e"},
		"what a span may say is decided in one place, and only who sends them carries the SDK"},
	{"github.com/openai/...", []string{"ao/worker/llm/openai"}, nil,
		"a conversation is kept in no provider's form; beside its room nobody knows the provider"},
	{"github.com/anthropics/...", []string{"ao/worker/llm/anthropic"}, nil,
		"a conversation is kept in no provider's form; beside its room nobody knows the provider"},
	{"github.com/prometheus/...", []string{"ao/shared/metric", "ao/shared/metric/metrictest"}, nil,
		"what counts holds a handle that may be nil and costs nothing then; names, help texts and what is told " +
			"stand in one form"},
	{"github.com/spf13/...", []string{"ao/coordinator/cmd/ao/..."}, nil,
		"the command line for people is ao; servers read their settings from shared/config"},
	{"golang.org/x/term/...", []string{"ao/coordinator/cmd/ao/..."}, nil,
		"ao top is painted on a terminal; nothing else has one"},
	{"ao/shared/clients/...", []string{"ao/shared/clients/...", "ao/coordinator/cmd/ao/...", "ao/scripts/..."}, nil,
		"it is for callers, and ao is one; a server or a worker has other ways"},
	{"ao/worker/claudecode/standin", nil, []string{"ao/worker/...", "ao/scripts/..."},
		"it pretends to be the Messages API, which only tests want"},
	{"github.com/hibiken/...", []string{"ao/scripts/bench/peers"}, nil,
		"it is measured beside ours, from a module of its own; the product depends on none of its peers"},
	{"github.com/riverqueue/...", []string{"ao/scripts/bench/peers"}, nil,
		"it is measured beside ours, from a module of its own; the product depends on none of its peers"},
	{"github.com/jackc/...", []string{"ao/scripts/bench/peers"}, nil,
		"there is no database beside NATS; only a peer that is measured has one"},
	{"os/exec", []string{"ao/worker/process", "ao/shared/executor/conformance", "ao/coordinator/cmd/ao/browser",
		"ao/nats/natstest", "ao/scripts/..."}, []string{"ao/..."}, "one place starts programs: process group, " +
		"environment, pipes, limits, and the end of all of it; conformance judges executors from outside, as " +
		"somebody who shares no code with the worker; a person's browser is nobody's run"},
}

// moduleUsers says which go.mod may require a module, directly or indirectly: one program's dependencies must not be
// part of the others.
var moduleUsers = []struct {
	what   string
	only   []string
	reason string
}{
	{"github.com/spf13/cobra", aoModules, aoReason},
	{"github.com/spf13/pflag", aoModules, aoReason},
	{"github.com/inconshreveable/mousetrap", aoModules, aoReason},
	{"golang.org/x/term", aoModules, aoReason},
	{"github.com/openai/openai-go/v3", llmModules, llmReason},
	{"github.com/anthropics/anthropic-sdk-go", llmModules, llmReason},
}

var (
	aoModules  = []string{"coordinator/cmd/ao/go.mod", "scripts/allinone/go.mod"}
	llmModules = []string{"worker/llm/go.mod"}
)

const (
	aoReason = "the command line for people has a terminal; a server is built, scanned and updated " +
		"without what that needs"
	llmReason = "the models' SDKs take longer to compile than all the rest; only ao-llm-exec is built with them"
)

// ownImports checks the imports between our packages.
func ownImports(h *House, say reporter) {
	for _, f := range h.Files {
		pkg := f.Package()
		if f.Go != nil && slices.ContainsFunc(f.Go.Imports, func(i *ast.ImportSpec) bool {
			return i.Name != nil && i.Name.Name == "."
		}) {
			say("%s: imports a package's names as its own; then no rule sees whose they are", f.Path)
		}
		for _, used := range f.Imports() {
			if !covers("ao/...", used) || used == pkg {
				continue
			}
			may, known := allowed(f)
			switch {
			case !known:
				say("%s: %s has no row in the plan of scripts/rules/imports.go; say "+
					"there what it may use", f.Path, pkg)
			case !anyCovers(may, used):
				say("%s: %s may not use %s, only %s", f.Path, pkg, used, strings.Join(may, ", "))
			}
		}
	}
}

// allowed returns the patterns for a file's imports of our packages.
func allowed(f File) (may []string, known bool) {
	closest := -1
	for _, row := range packageImports {
		near := 2 * len(strings.TrimSuffix(row.room, "/..."))
		if !strings.HasSuffix(row.room, "/...") {
			near++ // the package itself is closer than its tree
		}
		if covers(row.room, f.Package()) && near > closest {
			closest, may, known = near, row.may, true
		}
	}
	if f.IsTest() {
		for _, row := range inTests {
			if covers(row.room, f.Package()) {
				may = append(may[:len(may):len(may)], row.may...)
			}
		}
	}
	return may, known
}

// foreignImports checks technologyUsers.
func foreignImports(h *House, say reporter) {
	for _, f := range h.Files {
		for _, used := range f.Imports() {
			for _, d := range technologyUsers {
				if !covers(d.what, used) || anyCovers(d.rooms, f.Package()) || f.IsTest() &&
					anyCovers(d.tests, f.Package()) {
					continue
				}
				say("%s: only %s may use %s: %s", f.Path, strings.Join(d.rooms, ", "), used, d.reason)
			}
		}
	}
}

// foreignModules checks moduleUsers.
func foreignModules(h *House, say reporter) {
	for _, f := range h.Files {
		if path.Base(f.Path) != "go.mod" {
			continue
		}
		for _, line := range f.lines {
			module, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "require "), " ")
			for _, r := range moduleUsers {
				if module == r.what && !slices.Contains(r.only, f.Path) {
					say("%s: only %s may require %s: %s", f.Path, strings.Join(r.only, ", "), r.what, r.reason)
				}
			}
		}
	}
}
