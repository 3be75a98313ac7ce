package compose

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ao/nats/disk"
	"ao/nats/subject"
	"ao/nats/users"

	"github.com/goccy/go-yaml"
)

// kept are the settings that a stack does not pass on from the environment, with the reasons.
var kept = map[string]string{
	"AO_HTTP_ADDR":       "the address in the container; AO_HTTP_PORT says where it is published",
	"AO_INSECURE_LISTEN": "init makes tokens and users, so nobody is let in without",
	"AO_API_TOKENS":      "init makes them",
	"AO_NATS_URL":        "the stack's own NATS",
	"AO_NATS_CREDS":      "init makes them",
	"AO_NATS_LISTEN":     "of an embedded NATS",
	"AO_NATS_SYNC":       "of an embedded NATS; nats/server.conf says always",
	"AO_NATS_STAGING": "of an embedded NATS; docker-compose.yml mounts memory, and servers with " +
		"replicas use it by themselves",
	"AO_NATS_USERS":                 "of an embedded NATS; nats/compose.conf includes what init makes",
	"AO_NATS_REPLICAS":              "as many as the stack has servers",
	"AO_DATA_DIR":                   "a volume",
	"AGENT_ORCHESTRATOR_AGENTS_DIR": "AO_AGENTS names the folder that is mounted there",
	"AO_AGENTS_SEED":                "AO_AGENTS names the folder that is mounted there",
	"AO_PROFILES_DIR":               "AO_EXECUTOR_PROFILES names the folder that is mounted there",
	"AO_PROFILES":                   "each service has a credential for its own; worker-own takes it",
	"AO_PROJECT_DIR":                "AO_WORKSPACE names the folder that is mounted there",
	"AO_HOSTNAME": "each container has a name of its own, by which the runners of one " +
		"service are told apart",
	"AO_HEALTH_FILE": "the image's health check looks there",
}

// TestSettings: a stack passes on every documented setting from the environment or .env, or it is listed in kept.
func TestSettings(t *testing.T) {
	programs := documented(t)
	passed := map[string]bool{}
	for _, file := range []string{"docker-compose.yml", "docker-compose.cluster.yml"} {
		for name, s := range services(t, file) {
			for _, setting := range programs[s.program()] {
				switch {
				case s.passes(setting):
					passed[setting] = true
				case kept[setting] == "":
					t.Errorf("%s: %s does not take %s from the environment; pass it, or say why not in the "+
						"table of this test", file, name, setting)
				}
			}
		}
	}
	for setting := range kept {
		if !slices.Contains(programs["coordinator"], setting) && !slices.Contains(programs["worker"], setting) ||
			passed[setting] && setting != "AO_PROFILES" {
			t.Errorf("the table says why %s is not passed, and it is, or is none", setting)
		}
	}
}

// TestMountedFolders: agents and files are mounted read-only, so that no image has to be built for them.
func TestMountedFolders(t *testing.T) {
	for _, file := range []string{"docker-compose.yml", "docker-compose.cluster.yml"} {
		for name, s := range services(t, file) {
			if strings.HasPrefix(s.Image, "nats:") && !slices.Contains(s.Volumes, any("keys-nats:/keys/nats:ro")) {
				t.Errorf("%s: %s does not find the certificates of 'ao init --tls' where users.conf says", file, name)
			}
			if s.program() == "" {
				continue
			}
			for _, want := range []string{"${AO_AGENTS:-./worker/agents}:/etc/ao/agents:ro",
				"${AO_FILES:-files}:/files:ro"} {
				if !slices.Contains(s.Volumes, any(want)) {
					t.Errorf("%s: %s does not mount %s", file, name, want)
				}
			}
			if s.program() == "worker" && !slices.Contains(s.Volumes, any("${AO_WORKSPACE:-workspace}:/workspace")) {
				t.Errorf("%s: %s has no AO_WORKSPACE", file, name)
			}
			if s.program() == "worker" && !strings.Contains(s.text("AO_HIDE"), "/files") {
				t.Errorf("%s: programs of %s can read the private keys in AO_FILES", file, name)
			}
		}
	}
}

// TestKeysOfModels: the folder for models' keys is outside the repository.
func TestKeysOfModels(t *testing.T) {
	var doc struct {
		Secrets map[string]struct{ File string }
	}
	if err := yaml.UnmarshalWithOptions(read(t, "docker-compose.yml"), &doc, yaml.AllowDuplicateMapKey()); err != nil ||
		len(doc.Secrets) == 0 {
		t.Fatalf("%d secrets, %v", len(doc.Secrets), err)
	}
	for name, s := range doc.Secrets {
		if _, at, _ := strings.Cut(s.File, ":-"); !strings.HasPrefix(at, "~/") {
			t.Errorf("%s is looked for in %q", name, s.File)
		}
	}
}

// TestBatchesInMemory: the single server has memory mounted for batches, owned by its user and limited; init creates
// the mount point. Servers with replicas need none, and a folder of a stream that is not theirs would confuse them.
func TestBatchesInMemory(t *testing.T) {
	const nats, volume = "/data", "/own/1" // one volume, in NATS and in init
	of := services(t, "docker-compose.yml")
	at := disk.Batches(nats, users.AccountCoordinators, subject.Runs) + ":"
	i := slices.IndexFunc(of["nats"].Tmpfs, func(s string) bool { return strings.HasPrefix(s, at) })
	if i < 0 {
		t.Fatalf("NATS has %q in memory, want %s", of["nats"].Tmpfs, at)
	}
	uid, gid, _ := strings.Cut(of["nats"].User, ":")
	options := strings.Split(strings.TrimPrefix(of["nats"].Tmpfs[i], at), ",")
	for _, want := range []string{"size=256m", "mode=0700", "uid=" + uid, "gid=" + gid} {
		if !slices.Contains(options, want) {
			t.Errorf("the memory for batches has the options %q, want %s", options, want)
		}
	}
	if !slices.Contains(of["init"].Command, "--nats-staging="+volume) {
		t.Errorf("init makes no folder for it: %q", of["init"].Command)
	}
	for name, s := range services(t, "docker-compose.cluster.yml") {
		if strings.Contains(fmt.Sprint(s.Tmpfs, s.Command), "batches") || strings.Contains(fmt.Sprint(s.Command),
			"--nats-staging") {
			t.Errorf("%s of the cluster: %q, %q", name, s.Tmpfs, s.Command)
		}
	}
}

// service is the part of a service that these tests read.
type service struct {
	Build       struct{ Target string }
	Image, User string
	Entrypoint  []string
	Command     []string
	Environment map[string]any
	Volumes     []any
	Tmpfs       []string
}

// program returns its program; empty: none with settings.
func (s service) program() string {
	if s.Entrypoint != nil {
		return ""
	}
	program, _, _ := strings.Cut(s.Build.Target, "-") // worker-llm is a worker
	return program
}

// passes reports whether it passes on a variable.
func (s service) passes(name string) bool {
	value, there := s.Environment[name]
	return there && (value == nil || strings.HasPrefix(s.text(name), "${"+name))
}

func (s service) text(name string) string {
	text, _ := s.Environment[name].(string)
	return text
}

func services(t *testing.T, file string) map[string]service {
	t.Helper()
	var doc struct{ Services map[string]service }
	if err := yaml.UnmarshalWithOptions(read(t, file), &doc, yaml.AllowDuplicateMapKey()); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for _, program := range []string{"coordinator", "worker"} {
		if !slices.ContainsFunc(slices.Collect(maps.Values(doc.Services)), func(s service) bool {
			return s.program() == program
		}) {
			t.Fatalf("%s has no %s", file, program)
		}
	}
	return doc.Services
}

var (
	setting = regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\|")
	traced  = regexp.MustCompile("(…|OTEL)(_[A-Z_]+)")
)

// documented returns the settings of each program in settings.md and tracing.md.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, section := range strings.Split(string(read(t, "shared/docs/reference/settings.md")), "\n## ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		for _, m := range setting.FindAllStringSubmatch(text, -1) {
			for _, program := range []string{"coordinator", "worker"} {
				if strings.Contains(strings.ToLower(title), program) {
					all[program] = append(all[program], m[1])
				}
			}
		}
	}
	for _, m := range traced.FindAllStringSubmatch(string(read(t, "shared/docs/tracing.md")), -1) {
		name := cmp.Or(map[string]string{"…": "OTEL_EXPORTER_OTLP"}[m[1]], m[1]) + m[2]
		if strings.HasSuffix(name, "_") { // a prefix
			continue
		}
		names := []string{name}
		if rest, ok := strings.CutPrefix(name, "OTEL_EXPORTER_OTLP_"); ok && !strings.HasPrefix(rest, "TRACES_") {
			names = append(names, "OTEL_EXPORTER_OTLP_TRACES_"+rest)
		}
		for program := range all {
			all[program] = append(all[program], names...)
		}
	}
	if len(all["coordinator"]) < 40 || len(all["worker"]) < 30 ||
		!slices.Contains(all["worker"], "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY") {
		t.Fatalf("not all settings are found: %v", all)
	}
	return all
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile("../../" + file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
