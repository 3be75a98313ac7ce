package agents

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"ao/nats/bus"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// The definitions that come over the API are stored in the bucket `agents`.

// CreateAgent stores a definition. A name that exists is a Conflict.
func (a *Catalog) CreateAgent(ctx context.Context, raw []byte) (View, error) {
	b, err := readDefinition(raw)
	v := (&Resolved{Blueprint: b}).view(nil)
	if err == nil {
		err = refuseMask(b.MCPServers)
	}
	if err == nil && b.OutputSchemaOptions != nil {
		err = b.OutputSchemaOptions.CheckSent()
	}
	if err != nil {
		return v, err
	}
	if k, ok := a.Find(b.Name); ok {
		return v, k.errExists()
	}
	if err := checkSchemas(ctx, a.cfg.Schemas)(b); err != nil {
		return v, err
	}
	now := time.Now().UTC()
	v.CreatedAt, v.ModifiedAt = &now, &now
	value, err := strictjson.Encode(v.Blueprint)
	if err != nil {
		return v, err
	}
	rev, err := a.cfg.Bucket.Create(ctx, b.Name, value)
	if errors.Is(err, bus.ErrTaken) {
		return v, (&Resolved{Blueprint: b}).errExists()
	} else if err != nil {
		return v, bus.WriteUnanswered(err)
	}
	if err := a.cfg.Schemas.Hold(ctx, b.SchemaNames()); err != nil {
		_ = a.cfg.Bucket.DeleteRev(context.WithoutCancel(ctx), b.Name, rev) // err is told anyway
		return v, err
	}
	a.put(b.Name, value, rev)
	a.cfg.OnDelete(ctx, b.Name) // what a deleted agent of this name left
	return v, nil
}

// readDefinition reads a definition that the coordinator may have.
func readDefinition(raw []byte) (agent.Blueprint, error) {
	b, err := agent.Read(raw, run.Autonomous)
	switch {
	case err != nil:
		return b, err
	case b.Type == run.Procedural:
		return b, fault.New(fault.Invalid, "", procedural).With("field", "type")
	}
	return b, nil
}

// refuseMask refuses servers as a caller sees them who may not see their secrets.
func refuseMask(servers []byte) error {
	at := agent.MaskedAt(servers)
	if at == "" {
		return nil
	}
	return fault.Newf(fault.Invalid, "%.200s holds •••• in place of a secret: send the secret itself, or leave "+
		"mcp_servers out to keep what is stored", at).With("field", at)
}

// ChangeAgent sets the members that patch names; null removes a member (RFC 7396, top level only). It changes nothing
// where the tag does not match. Where a file defines the agent, the file is changed.
func (a *Catalog) ChangeAgent(ctx context.Context, name string, patch []byte, match Match) (View, error) {
	if err := strictjson.Check(patch); err != nil {
		return View{}, err
	}
	changes, err := strictjson.Members(patch)
	if err != nil {
		return View{}, fault.New(fault.Invalid, "", "The body must be a JSON object with the members to change")
	}
	changes, err = agent.CanonicalNames(changes)
	if err != nil {
		return View{}, err
	}
	for _, ch := range changes {
		if err := checkChange(ch); err != nil {
			return View{}, err
		}
	}
	if f, ok := a.folders.current(name); ok {
		if err := a.folders.change(ctx, f, changes, f.check(match, checkSchemas(ctx, a.cfg.Schemas))); err != nil {
			return View{}, err
		}
		return a.View(ctx, name)
	}
	for range 8 { // others may change it at the same time
		old, rev, err := a.cfg.Bucket.Get(ctx, name)
		if err != nil {
			return View{}, errNotEditable(a, name, err)
		}
		after, value, err := a.changed(ctx, old, changes, match)
		if err != nil {
			return View{}, err
		}
		next, err := a.cfg.Bucket.Update(ctx, name, value, rev)
		if errors.Is(err, bus.ErrTaken) {
			continue
		} else if err != nil {
			return after, bus.WriteUnanswered(err)
		}
		if err := a.cfg.Schemas.Hold(ctx, after.SchemaNames()); err != nil {
			_, _ = a.cfg.Bucket.Update(context.WithoutCancel(ctx), name, old, next) // err is told anyway
			return after, err
		}
		a.put(name, value, next)
		return after, nil
	}
	return View{}, errBeingChanged(name)
}

// checkChange refuses what a stored definition may have and a caller may not send.
func checkChange(ch strictjson.Member) error {
	switch ch.Key {
	case "mcp_servers":
		return refuseMask(ch.Value)
	case "output_schema_options":
		var o run.OutputOptions
		if json.Unmarshal(ch.Value, &o) == nil { // else the definition is refused
			return o.CheckSent()
		}
	}
	return nil
}

// changed returns a stored definition with the changes.
func (a *Catalog) changed(ctx context.Context, old []byte, changes []strictjson.Member, match Match) (after View,
	value []byte, err error) {
	var before agent.Blueprint
	if err := json.Unmarshal(old, &before); err != nil {
		return after, nil, err
	}
	if err := match.check((&Resolved{Blueprint: before}).view(nil)); err != nil {
		return after, nil, err
	}
	created, name := before.CreatedAt, before.Name
	before.CreatedAt, before.ModifiedAt = nil, nil
	base, err := strictjson.Encode(before)
	if err != nil {
		return after, nil, err
	}
	merged, err := merge(base, changes)
	if err != nil {
		return after, nil, err
	}
	b, err := readDefinition(merged)
	if err != nil {
		return after, nil, err
	}
	if err := checkSameName(name, b); err != nil {
		return after, nil, err
	}
	if err := checkSchemas(ctx, a.cfg.Schemas)(b); err != nil {
		return after, nil, err
	}
	b.CreatedAt, b.ModifiedAt = created, new(time.Now().UTC())
	value, err = strictjson.Encode(b)
	return (&Resolved{Blueprint: b}).view(nil), value, err
}

// checkSameName refuses to change the name.
func checkSameName(name string, b agent.Blueprint) error {
	if b.Name == name {
		return nil
	}
	return fault.New(fault.Invalid, "", "an agent's name cannot be changed; create another one").With("field", "name")
}

func merge(base []byte, changes []strictjson.Member) ([]byte, error) {
	members, err := strictjson.Members(base)
	if err != nil {
		return nil, err
	}
	for _, ch := range changes {
		i := slices.IndexFunc(members, func(m strictjson.Member) bool { return m.Key == ch.Key })
		if i < 0 {
			members = append(members, ch)
		} else {
			members[i] = ch
		}
	}
	return strictjson.Object(members), nil
}

// DeleteAgent deletes a definition. Accepted runs keep their copy of it.
func (a *Catalog) DeleteAgent(ctx context.Context, name string, match Match) error {
	if f, ok := a.folders.current(name); ok {
		err := a.folders.remove(ctx, f, f.checkUnchanged(match))
		if err == nil {
			a.cfg.OnDelete(ctx, name)
		}
		return err
	}
	b := a.cfg.Bucket
	for range 8 { // others may change it at the same time
		old, rev, err := b.Get(ctx, name)
		if err != nil {
			return errNotEditable(a, name, err)
		}
		var before agent.Blueprint
		if err := json.Unmarshal(old, &before); err == nil { // an unreadable definition can be deleted too
			if err := match.check((&Resolved{Blueprint: before}).view(nil)); err != nil {
				return err
			}
		}
		if err := b.DeleteRev(ctx, name, rev); errors.Is(err, bus.ErrTaken) {
			continue
		} else if err != nil {
			return bus.WriteUnanswered(err)
		}
		a.put(name, nil, rev+1) // its tombstone has that revision or a later one
		a.cfg.OnDelete(ctx, name)
		return nil
	}
	return errBeingChanged(name)
}

func errBeingChanged(name string) error {
	return fault.Newf(fault.Conflict, "Agent %q is being changed by others; try again", name)
}

// errExists returns the error for a second agent of this name. It says how to change the first.
func (k *Resolved) errExists() error {
	switch {
	case k.Owners != nil:
		return k.errOwnedByRunner()
	case k.file != nil:
		return fault.Newf(fault.Conflict, "Agent %q already exists, defined by a file: change the file, or use "+
			"another name", k.Name).With("agent_name", k.Name)
	}
	return fault.Newf(fault.Conflict, "Agent %q already exists; PATCH /agents/%s changes it", k.Name, k.Name).
		With("agent_name", k.Name)
}

// errOwnedByRunner returns the error for changing a runner's agent.
func (k *Resolved) errOwnedByRunner() error {
	return fault.Newf(fault.Conflict, "Agent %q belongs to runner %s: change or remove it in the agents_dir of "+
		"profile %q, or use another name. "+
		"The name is free RUN_NO_MATCH_TIMEOUT after its last runner left, or after DELETE /runners/{id} of that "+
		"runner", k.Name, k.RunnerID, k.Profile).
		With("agent_name", k.Name).With("runner_id", k.RunnerID).With("executor_profile", k.Profile)
}

// errNotEditable returns why an agent that is not in the bucket cannot be changed.
func errNotEditable(a *Catalog, name string, err error) error {
	if !errors.Is(err, bus.ErrNotFound) {
		return bus.WriteUnanswered(err)
	}
	k, ok := a.Find(name)
	if ok && k.Owners != nil {
		return k.errOwnedByRunner()
	}
	for _, b := range a.folders.unreadable() {
		if b.Name == name {
			return fault.Newf(fault.Conflict, "Agent %q cannot be changed, its file %s is broken: %s; fix the file",
				name, b.Path, b.Reason).With("agent_name", name)
		}
	}
	return errNone(a, name)
}

// checkSchemas returns a check that the schemas exist which an agent names or refers to.
func checkSchemas(ctx context.Context, named Schemas) func(agent.Blueprint) error {
	return func(b agent.Blueprint) error {
		if b.OutputSchemaName != "" {
			if err := named.RequireSchema(ctx, b.OutputSchemaName); err != nil {
				return err
			}
		}
		if b.OutputSchema != nil {
			if _, err := named.Embed(ctx, b.OutputSchema); err != nil {
				return agent.InvalidSchema("output_schema", err)
			}
		}
		_, err := b.InputSchema(ctx, run.Start, named.Embed)
		return err
	}
}
