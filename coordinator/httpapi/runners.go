package httpapi

import (
	"cmp"
	"context"
	"encoding/json"

	"ao/coordinator/audit"
	"ao/coordinator/workerapi"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/runnerapi"
	"ao/shared/strictjson"

	"github.com/gin-gonic/gin"
)

// runnersAPI serves runners.
type runnersAPI struct {
	runners Runners
	nats    string // URL of NATS for those that register
	audit   *recorder
}

func (a *runnersAPI) list(*gin.Context, request) (any, error) {
	return runnerList{a.runners.Runners()}, nil
}

func (a *runnersAPI) drain(g *gin.Context, q request) (any, error) {
	err := a.runners.Drain(context.WithoutCancel(g.Request.Context()), q.id)
	return drained{q.id, runnerapi.Draining}, err
}

// registration is the body of POST /runner/register.
type registration struct {
	Hostname            string          `json:"hostname"`
	ProjectDir          string          `json:"project_dir"`
	ExecutorProfile     string          `json:"executor_profile"`
	ExecutorType        string          `json:"executor_type"`
	Executor            executor        `json:"executor"`      // "executor":{"type":…}: an alias
	DottedType          string          `json:"executor.type"` // likewise
	Instance            string          `json:"instance"`
	Secret              string          `json:"secret"`
	Tags                []string        `json:"tags"`
	RequireMatchingTags bool            `json:"require_matching_tags"`
	MaxConcurrentRuns   int             `json:"max_concurrent_runs"`
	TimeoutSeconds      int             `json:"timeout_seconds"`
	Agents              json.RawMessage `json:"agents"`

	Updates bool                `json:"updates"` // see runnerapi.Runner, also for the next
	Older   map[string][]string `json:"older"`
}

type executor struct {
	Type string `json:"type"`
}

// registered answers a registration.
type registered struct {
	RunnerID  string               `json:"runner_id"`
	Heartbeat int                  `json:"heartbeat_interval_seconds"`
	NATS      workerapi.Connection `json:"nats"`
	APIURL    string               `json:"api_url"` // URL of this API for workers

	RecordVersion int `json:"record_version,omitempty"` // newest version of records that the worker may write; 0: 1
	EventVersion  int `json:"event_version,omitempty"`  // newest version of events that it may write; 0: 1

	Refused map[string]string `json:"refused,omitempty"` // new agents of an update whose names collide, and why
}

func (a *runnersAPI) register(g *gin.Context, q request) (any, error) {
	runner, err := readRunner(q.body)
	if err != nil {
		return nil, err
	}
	a.audit.changed(g, audit.Targets{Runner: runner.ID()})
	done, err := a.runners.Register(context.WithoutCancel(g.Request.Context()), runner)
	if err != nil {
		return nil, err
	}
	return registered{done.RunnerID, done.HeartbeatSeconds, workerapi.ConnectionOf(a.nats, done), done.APIURL,
		done.RecordVersion, done.EventVersion, done.Refused}, nil
}

func readRunner(raw []byte) (runnerapi.Runner, error) {
	var r registration
	if err := strictjson.DecodeFilled(raw, &r); err != nil {
		return runnerapi.Runner{}, err
	}
	kind := cmp.Or(r.ExecutorType, r.Executor.Type, r.DottedType)
	for _, alias := range []string{r.Executor.Type, r.DottedType} {
		if alias != "" && alias != kind {
			return runnerapi.Runner{}, fault.New(fault.Invalid, "", "executor_type and executor.type differ; send one "+
				"of them").With("field", "executor_type")
		}
	}
	runner, err := runnerapi.Registration{Secret: r.Secret, Runner: runnerapi.Runner{
		Identity: runnerapi.Identity{Hostname: r.Hostname, ProjectDir: r.ProjectDir, ExecutorProfile: r.ExecutorProfile,
			ExecutorType: kind},
		Instance: r.Instance, Tags: r.Tags, RequireMatchingTags: r.RequireMatchingTags,
		MaxConcurrentRuns: r.MaxConcurrentRuns, TimeoutSeconds: r.TimeoutSeconds,
		Updates: r.Updates, OlderHashes: r.Older,
	}}.HashSecret()
	if err != nil {
		return runner, err
	}
	if len(r.Agents) == 0 || string(r.Agents) == "null" {
		return runner, nil
	}
	var all []json.RawMessage
	if err := json.Unmarshal(r.Agents, &all); err != nil {
		return runner, fault.New(fault.Invalid, "", "agents must be a list of agent definitions").With("field",
			"agents")
	}
	for i, one := range all {
		b, err := agent.Read(one, kind)
		if err != nil {
			return runner, fault.Of(err).With("agent_name", b.Name).With("agent_index", i)
		}
		runner.Agents = append(runner.Agents, b)
	}
	return runner, nil
}
