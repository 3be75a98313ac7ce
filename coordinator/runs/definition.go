package runs

import (
	"context"
	"encoding/json"
	"errors"

	"ao/coordinator/agents"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/run"
)

// Definition is what a run runs: its agent as it was accepted with, and what its answer must match.
type Definition struct {
	RunID      string          `json:"run_id"`
	Hash       string          `json:"agent_hash"`
	Changed    *bool           `json:"agent_changed"` // the agent has another one now, or is deleted; null: unknown
	Definition agent.Blueprint `json:"definition"`
	Output     *run.Output     `json:"output"` // null: anything
}

// Definitions shows what runs run.
type Definitions struct {
	history interface {
		Spec(ctx context.Context, id string) (run.Spec, error)
	}
	agents lookup
}

// lookup finds an agent as it is now.
type lookup interface {
	Lookup(ctx context.Context, name string) (k *agents.Resolved, exists bool, err error)
}

// NewDefinitions makes Definitions.
func NewDefinitions(history interface {
	Spec(ctx context.Context, id string) (run.Spec, error)
}, agents lookup) Definitions {
	return Definitions{history, agents}
}

// Definition returns what a run runs, also where the agent has changed since or is deleted.
func (r Definitions) Definition(ctx context.Context, id string) (d Definition, err error) {
	s, err := r.history.Spec(ctx, id)
	if f, ok := errors.AsType[*fault.Fault](err); ok && f.Code == run.CodeParametersExpired {
		return d, fault.New(fault.NotFound, f.Code, "The agent's definition was stored with the parameters of run "+id+
			", which were removed to make room for others").With("run_id", id)
	}
	if err != nil {
		return d, err
	}
	if s.Input == nil || json.Unmarshal(s.Blueprint, &d.Definition) != nil {
		return d, fault.New(fault.Internal, "", "the agent's definition in the record of run "+id+" is unreadable")
	}
	d.RunID, d.Hash, d.Output = id, hashOf(&s), s.Output
	if now, exists, err := r.agents.Lookup(ctx, s.Agent); err == nil {
		d.Changed = new(!exists || now.Hash() != d.Hash)
	}
	return d, nil
}

// hashOf returns the hash of the definition that a run carries.
func hashOf(s *run.Spec) string {
	if s.Owner != "" || s.Input == nil {
		return s.Owner
	}
	return agent.HashOf(s.Blueprint)
}
