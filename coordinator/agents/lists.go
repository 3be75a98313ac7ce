package agents

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"ao/nats/bus"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/schema"
)

// Agents lists the agents with this status by name; empty: any status.
func (a *Catalog) Agents(status string) ([]agent.Blueprint, error) {
	if !slices.Contains([]string{"", agent.Active, agent.Inactive}, status) {
		return nil, fault.New(fault.Invalid, "", "status must be active, inactive or broken").With("field", "status")
	}
	if err := a.cfg.Ready(); err != nil {
		return nil, err
	}
	all := a.cfg.Runners.Agents() // the coordinators' definitions win over them
	a.mu.RLock()
	for name, k := range a.stored {
		all[name] = k.Blueprint
	}
	a.mu.RUnlock()
	a.folders.add(all)
	list := make([]agent.Blueprint, 0, len(all))
	for _, b := range all {
		if status == "" || b.Status == status {
			list = append(list, b)
		}
	}
	slices.SortFunc(list, func(x, y agent.Blueprint) int { return cmp.Compare(x.Name, y.Name) })
	return list, nil
}

// BrokenAgents lists the agent files that could not be read, here and at the runners, and why.
func (a *Catalog) BrokenAgents() []agent.BrokenFile {
	return append(a.folders.unreadable(), a.cfg.Runners.Broken()...)
}

// BrokenFiles lists BrokenAgents, and all agents that name or refer to schemas that are not there.
func (a *Catalog) BrokenFiles(ctx context.Context) []agent.BrokenFile {
	broken, check := a.BrokenAgents(), checkSchemas(ctx, a.cfg.Schemas)
	all, _ := a.Views("") // none while they are not known
	for _, v := range all {
		if len(v.SchemaNames()) == 0 {
			continue
		}
		err, ok := errors.AsType[*fault.Fault](check(v.Blueprint))
		if ok && (err.Kind == fault.NotFound || err.Kind == fault.Invalid) { // else it is not known now
			broken = append(broken, agent.BrokenFile{Name: v.Name, Path: v.Path, Status: agent.Broken,
				Reason: err.Reason(), RunnerID: v.RunnerID})
		}
	}
	return broken
}

// Get is Lookup for an agent that must exist, active or not.
func (a *Catalog) Get(ctx context.Context, name string) (*Resolved, error) {
	k, ok, err := a.Lookup(ctx, name)
	if err == nil && !ok {
		err = errNone(a, name)
	}
	return k, err
}

// InputSchema returns the schema for the parameters of a start of an agent.
func (a *Catalog) InputSchema(ctx context.Context, name string) (*schema.Schema, error) {
	k, err := a.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	s, err := k.InputSchema(ctx, run.Start, a.cfg.Schemas.Embed)
	return s, k.SchemaError(err)
}

// UsingSchema lists the agents that name or refer to a schema, also those that another coordinator has just stored.
func (a *Catalog) UsingSchema(ctx context.Context, name string) (users []string, err error) {
	stored, err := a.cfg.Bucket.List(ctx)
	if err != nil {
		return nil, bus.WriteUnanswered(err)
	}
	for agent, v := range stored {
		a.put(agent, v.Body, v.Rev)
	}
	all, err := a.Agents("")
	for _, b := range all {
		if slices.Contains(b.SchemaNames(), name) {
			users = append(users, b.Name)
		}
	}
	return users, err
}

// Usable is Lookup for a run. An unknown agent is NotFound, an inactive one a Conflict.
func (a *Catalog) Usable(ctx context.Context, name string) (*Resolved, error) {
	k, ok, err := a.Lookup(ctx, name)
	switch {
	case err != nil:
		return k, err
	case !ok:
		for _, b := range a.BrokenAgents() {
			if b.Name == name {
				return k, fault.Newf(fault.NotFound, "Agent %q cannot be used, its file is broken: %s; GET "+
					"/agents?status=broken lists such files", name, b.Reason).With("agent_name", name).
					With("field", "agent_name")
			}
		}
		return k, errNone(a, name).With("field", "agent_name")
	case k.Status == agent.Inactive:
		return k, fault.New(fault.Conflict, "agent_inactive", "Agent "+
			name+" is inactive; set its status to active first").With("agent_name", name)
	}
	return k, nil
}
