// Package schemas stores named output schemas.
package schemas

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"ao/nats/bus"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/schema"
	"ao/shared/strictjson"
)

// Schema is a named schema. One that came over the API never changes. It is read from its file, else from the bucket
// `schemas`, whenever it is named. So all coordinators with the same files see the same schemas at once.
type Schema struct {
	Name        string          `json:"name"`
	Description string          `json:"description" empty:"kept"`
	Schema      json.RawMessage `json:"schema,omitempty"` // as given; left out of lists
	CreatedAt   *time.Time      `json:"created_at,omitempty"`
	ModifiedAt  *time.Time      `json:"modified_at,omitempty"` // the same as CreatedAt

	path string // of the file; empty: it came over the API
}

// stored names Schema so that embedding it hides no field.
type stored = Schema

// Row is a schema as the API shows it.
type Row struct {
	stored
	Origin string   `json:"origin"`  // api or file
	UsedBy []string `json:"used_by"` // agents that name or refer to it
}

// Listed is a schema as the list shows it.
type Listed struct {
	Row
	Broken     string   `json:"error,omitempty"` // why its file cannot be used; then it has no more members
	ReferredBy []string `json:"referred_by"`     // other schemas that refer to it
}

// Store stores named schemas.
type Store struct {
	Dir string // of files; empty: there are none
	// agents by the schemas that they name or refer to, as far as this coordinator knows
	UsersByName func() (map[string][]string, error)
	Log         *slog.Logger
	Bucket      *bus.Bucket
	// agents that name or refer to a schema, as NATS has them
	AgentsUsing func(ctx context.Context, schema string) (agents []string, err error)
}

// maxDescription is the most bytes of a description.
const maxDescription = 64 << 10

// CreateSchema stores a schema. A name that exists is a Conflict, also with the same content.
func (st *Store) CreateSchema(ctx context.Context, raw []byte) (Schema, error) {
	var s Schema
	if err := strictjson.DecodeFilled(raw, &s); err != nil {
		return s, err
	}
	switch {
	case s.CreatedAt != nil:
		return s, fault.New(fault.Invalid, "", "created_at is set by the coordinator; leave it out").
			With("field", "created_at")
	case s.ModifiedAt != nil:
		return s, fault.New(fault.Invalid, "", "modified_at is set by the coordinator; leave it out").
			With("field", "modified_at")
	case len(s.Description) > maxDescription:
		return s, fault.New(fault.Invalid, "", "description must be at most 64 KiB").With("field", "description")
	case s.Schema == nil || string(s.Schema) == "null":
		return s, fault.New(fault.Invalid, "", "schema is required: the JSON Schema that results must match").
			With("field", "schema")
	}
	if err := agent.CheckName("name", s.Name); err != nil {
		return s, err
	}
	if err := st.checkOfAPI(s.Name, "use another name, or change the file"); err != nil {
		return s, err
	}
	if _, err := st.Embed(ctx, s.Schema); err != nil {
		return s, agent.InvalidSchema("schema", err)
	}
	now := time.Now().UTC()
	s.CreatedAt, s.ModifiedAt = &now, &now
	value, err := strictjson.Encode(s)
	if err != nil {
		return s, err
	}
	rev, err := st.Bucket.Create(ctx, s.Name, value)
	if errors.Is(err, bus.ErrTaken) {
		return s, st.errTaken(ctx, s)
	} else if err != nil {
		return s, bus.WriteUnanswered(err)
	}
	if err := st.Hold(ctx, schema.Names(s.Schema)); err != nil {
		_ = st.Bucket.DeleteRev(context.WithoutCancel(ctx), s.Name, rev) // err is told anyway
		return s, err
	}
	return s, nil
}

// Hold keeps the schemas that the caller has just stored something for. A deletion that did not see that fails: it is
// of the revision from before it looked, and Hold makes a new one. The error is a Conflict if a schema is gone already.
// Files are not deleted here.
func (st *Store) Hold(ctx context.Context, names []string) error {
	for _, name := range names {
		if _, ok := st.fileOf(name); ok {
			continue
		}
		raw, rev, err := st.Bucket.Get(ctx, name)
		if err == nil {
			_, err = st.Bucket.Update(ctx, name, raw, rev)
		}
		if errors.Is(err, bus.ErrTaken) { // another holds it as well, or it is gone
			_, _, err = st.Bucket.Get(ctx, name)
		}
		switch {
		case errors.Is(err, bus.ErrNotFound):
			return fault.Newf(fault.Conflict, "Schema %q was deleted at the same time; nothing was stored", name).
				With("output_schema_name", name)
		case err != nil:
			return bus.WriteUnanswered(err)
		}
	}
	return nil
}

// errTaken returns the error for a name that exists. It says whether the schema is the same.
func (st *Store) errTaken(ctx context.Context, s Schema) error {
	hint := "schemas never change, so use another name"
	if old, err := st.Schema(ctx, s.Name); err == nil && old.Description == s.Description &&
		agent.EqualJSON(old.Schema, s.Schema) {
		hint = "it is identical, so there is nothing to do"
	}
	return fault.Newf(fault.Conflict, "Schema %q already exists; %s", s.Name, hint).With("output_schema_name", s.Name)
}

// Schemas lists all schemas that can be used by name, without their bodies.
func (st *Store) Schemas(ctx context.Context) ([]Schema, error) {
	all, _, err := st.all(ctx)
	for i := range all {
		all[i].Schema = nil
	}
	return all, err
}

// all returns all schemas by name, and the files that cannot be used.
func (st *Store) all(ctx context.Context) (list []Schema, broken []agent.BrokenFile, err error) {
	stored, err := st.Bucket.List(ctx)
	if err != nil {
		return nil, nil, bus.WriteUnanswered(err)
	}
	list, broken = st.files(ctx)
	taken := map[string]bool{}
	for _, s := range list {
		taken[s.Name] = true
	}
	for _, b := range broken {
		taken[b.Name] = true
	}
	for name, v := range stored {
		var s Schema
		if err := json.Unmarshal(v.Body, &s); err != nil {
			st.Log.Error("stored schema is unreadable", "schema", name, "err", err)
		} else if !taken[name] {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(x, y Schema) int { return cmp.Compare(x.Name, y.Name) })
	return list, broken, nil
}

// Rows lists all schemas by name, with what uses them, and the files that cannot be used.
func (st *Store) Rows(ctx context.Context) ([]Listed, error) {
	all, broken, err := st.all(ctx)
	if err != nil {
		return nil, err
	}
	users, err := st.UsersByName()
	referring := referring(all)
	rows := make([]Listed, 0, len(all)+len(broken))
	add := func(s Schema, broken string) {
		rows = append(rows, Listed{s.Row(users[s.Name]), broken, append([]string{}, referring[s.Name]...)})
	}
	for _, s := range all {
		s.Schema = nil
		add(s, "")
	}
	for _, b := range broken {
		add(Schema{Name: b.Name, path: b.Path}, b.Reason)
	}
	slices.SortFunc(rows, func(x, y Listed) int { return cmp.Compare(x.Name, y.Name) })
	return rows, err
}

// referring returns the schemas that refer to others, by the others' names.
func referring(all []Schema) map[string][]string {
	by := map[string][]string{}
	for _, s := range all {
		names := schema.Names(s.Schema)
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			by[name] = append(by[name], s.Name)
		}
	}
	return by
}

// RowOf returns one schema with the agents that use it.
func (st *Store) RowOf(ctx context.Context, name string) (Row, error) {
	s, err := st.Schema(ctx, name)
	if err != nil {
		return Row{}, err
	}
	users, err := st.UsersByName()
	return s.Row(users[name]), err
}

// Row returns the schema with the agents that use it.
func (s Schema) Row(users []string) Row {
	origin := "api"
	if s.path != "" {
		origin = "file"
	}
	return Row{stored: s, Origin: origin, UsedBy: append([]string{}, users...)}
}

// Schema returns one schema by name. An unknown name is run.SchemaNotFound. A file that cannot be used is Unavailable:
// the caller can do nothing about it.
func (st *Store) Schema(ctx context.Context, name string) (s Schema, err error) {
	if err := agent.CheckName("output_schema_name", name); err != nil {
		return s, err
	}
	if path, ok := st.fileOf(name); ok {
		return st.read(name, path)
	}
	raw, _, err := st.Bucket.Get(ctx, name)
	switch {
	case errors.Is(err, bus.ErrNotFound):
		return s, run.SchemaNotFound(name)
	case err != nil:
		return s, bus.WriteUnanswered(err)
	}
	return s, json.Unmarshal(raw, &s)
}

// RequireSchema fails where there is no schema of this name.
func (st *Store) RequireSchema(ctx context.Context, name string) error {
	_, err := st.Schema(ctx, name)
	return err
}

// Embed returns a schema with the named ones that it refers to (schema.Embed).
func (st *Store) Embed(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	return schema.Embed(raw, func(name string) (json.RawMessage, error) {
		s, err := st.Schema(ctx, name)
		if kind := fault.KindOf(err); err != nil && (kind == fault.NotFound || kind == fault.Invalid) {
			return nil, nil
		}
		return s.Schema, err
	})
}

// DeleteSchema deletes a schema that no agent and no other schema uses. Accepted runs keep their copy of it.
func (st *Store) DeleteSchema(ctx context.Context, name string) error {
	if agent.CheckName("output_schema_name", name) == nil {
		if err := st.checkOfAPI(name, "remove the file"); err != nil {
			return err
		}
	}
	if _, err := st.Schema(ctx, name); err != nil {
		return err
	}
	b := st.Bucket
	for range 8 { // others may hold it, or delete and create it, at the same time
		_, rev, err := b.Get(ctx, name)
		if errors.Is(err, bus.ErrNotFound) {
			return nil
		} else if err != nil {
			return bus.WriteUnanswered(err)
		}
		if err := st.checkUnused(ctx, name); err != nil { // after rev is known: see Hold
			return err
		}
		if err := b.DeleteRev(ctx, name, rev); err == nil {
			return nil
		} else if !errors.Is(err, bus.ErrTaken) {
			return bus.WriteUnanswered(err)
		}
	}
	return fault.Newf(fault.Conflict, "Schema %q is being changed by others; try again", name).
		With("output_schema_name", name)
}

// checkUnused refuses to delete a schema that an agent or another schema uses.
func (st *Store) checkUnused(ctx context.Context, name string) error {
	all, _, err := st.all(ctx)
	if err != nil {
		return err
	}
	if by := referring(all)[name]; len(by) > 0 {
		return fault.Newf(fault.Conflict, "Schema %q is referred to by schema %q; delete that first", name, by[0]).
			With("output_schema_name", name).With("schema_names", by)
	}
	users, err := st.AgentsUsing(ctx, name)
	switch {
	case err != nil:
		return err
	case len(users) > 0:
		return fault.Newf(fault.Conflict, "Schema %q is used by agent %q; change or delete that first",
			name, users[0]).With("output_schema_name", name).With("agent_names", users)
	}
	return nil
}
