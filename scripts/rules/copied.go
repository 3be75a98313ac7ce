package rules

import (
	"path"
	"regexp"
)

// runBy names the test that runs the commands of a section as they stand there, but for those that NotRun names. Each
// fails for a command that it does not know.
var runBy = map[string]string{
	"README.md ## 60 seconds":                                             "scripts/newcomer.TestTheReadme",
	"README.md ## An agent of your own":                                   "scripts/newcomer.TestTheReadme",
	"agents.md ## Autonomous agents":                                      "scripts/newcomer.TestThePages",
	"agents.md ## Agents that call agents":                                "scripts/newcomer.TestThePages",
	"agents.md ## Executors":                                              "scripts/newcomer.TestThePages",
	"clients.md ## sh":                                                    "scripts/e2e.TestClientSnippets",
	"http.md # HTTP: how to call the API":                                 "scripts/newcomer.TestThePages",
	"metrics.md # Metrics: what to scrape, and what to do about an alert": "scripts/newcomer.TestThePages",
	"protocol.md # Protocol: what goes over NATS":                         "scripts/newcomer.TestThePages",
	"gateway.md # The gateway: HTTP for the programs of a run":            "scripts/newcomer.TestThePages",
	"from-claude-agent-orchestrator.md ## Bring your agents":              "scripts/newcomer.TestThePages",
	"mcp.md ## Connecting":                                                "scripts/newcomer.TestThePages",
	"operating.md ## Back up and restore":                                 "scripts/newcomer.TestOperatingScriptsUp",
	"login.js CodeLine":                                                   "scripts/newcomer.TestThePages",
	"tracing.md ## Try it":                                                "scripts/newcomer.TestThePages",
	"tracing.md ## For callers":                                           "scripts/newcomer.TestThePages",
}

// notRun says why a test does not run a command as it stands there. A pattern is for a section and a command, with a
// colon between them.
var notRun = []struct {
	pattern *regexp.Regexp
	why     string
}{
	{regexp.MustCompile(`docker (?:compose|exec|run|build)\b|: scripts/(?:backup|restore) FILE$` +
		`|operating.md .*(?:: export AO_(?:FILES|TLS_CERT|VERSION)=|https://localhost:8765)`),
		"it needs Docker; scripts/compose tests the stack, and scripts/newcomer.TestTheReadmeWithDocker runs the " +
			"README's lines"},
	{regexp.MustCompile(`: (?:sudo |systemctl |journalctl |chown |install |tar -C /etc)|tee -a /etc/fstab$` +
		`|operating.md ## Several hosts.*: go build`),
		"it is for a host of its own, as root; scripts/deploy checks the files"},
	{regexp.MustCompile(`: .*(?:/etc/ao|http://build-1|AO_TOKEN=aot_…)`),
		"it is about hosts and secrets of the reader's; scripts/e2e runs such commands with others"},
	{regexp.MustCompile(`: (?:for name in .*kubectl|kubectl|helm) `), "it needs a cluster; scripts/deploy checks the " +
		"manifests"},
	{regexp.MustCompile(`: AO_[A-Z_]+=\S+$`), "it is a line of a file of settings"},
	{regexp.MustCompile(`: nats stream get RUNS 4711$`), "it shows a record that should not be there"},
	{regexp.MustCompile(`: go build .*/ao-llm-exec$`), "it takes minutes; scripts/e2e.TestLLMExecutor builds it"},
	{regexp.MustCompile(`: (?:go run \./)?scripts/(?:bench|mutations)\b|: git worktree add`),
		"it measures for many minutes, on an idle machine"},
	{regexp.MustCompile(`: .*\bgo test\b|: go run \./scripts/chaos`), "it is a test itself"},
	{regexp.MustCompile(`: scripts/test$`), "CI runs it"},
	{regexp.MustCompile(`: scripts/deploy/backup/restore-drill FILE$`), "scripts/e2e runs it on another file"},
}

// NotRun returns why no test runs a command as it stands there; empty: a test does.
func NotRun(c Command) string {
	for _, n := range notRun {
		if n.pattern.MatchString(c.Section + ": " + c.Text) {
			return n.why
		}
	}
	return ""
}

// hasCommands reports whether readers copy commands from a file.
func hasCommands(file string) bool {
	return file == "README.md" || path.Dir(file) == "shared/docs" && path.Ext(file) == ".md" ||
		path.Dir(file) == "coordinator/dashboard/ui/pages" && path.Ext(file) == ".js"
}

// copiedCommands checks that each command of the README, the docs and the dashboard is run by a test, or has a reason
// not to be.
func copiedCommands(h *House, say reporter) {
	for _, f := range h.Files {
		if !hasCommands(f.Path) {
			continue
		}
		for _, c := range Commands(path.Base(f.Path), f.Text) {
			if runBy[c.Section] == "" && NotRun(c) == "" {
				say("%s:%d: no test runs %.80q: let one of scripts/newcomer run it, or say in copied.go why none does",
					f.Path, c.Line, c.Text)
			}
		}
	}
}
