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

// Schema is a named output schema. It never changes. It is read from the bucket `schemas` whenever it is named, so that
// all coordinators see the same schemas at once.
type Schema struct {
	Name        string          `json:"name"`
	Description string          `json:"description" empty:"kept"`
	Schema      json.RawMessage `json:"schema,omitempty"` // as given; left out of lists
	CreatedAt   *time.Time      `json:"created_at,omitempty"`
	ModifiedAt  *time.Time      `json:"modified_at,omitempty"` // the same as CreatedAt
}

// stored names Schema so that embedding it hides no field.
type stored = Schema

// Row is a schema as the API shows it.
type Row struct {
	stored
	UsedBy []string `json:"used_by"` // agents that name it
}

// Store stores named schemas.
type Store struct {
	// agents by the schema that they name, as far as this coordinator knows
	UsersByName func() (map[string][]string, error)
	Log         *slog.Logger
	Bucket      *bus.Bucket
	// agents that name a schema, as NATS has them
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
	if _, err := schema.Compile(s.Schema); err != nil {
		return s, agent.InvalidSchema("schema", err)
	}
	now := time.Now().UTC()
	s.CreatedAt, s.ModifiedAt = &now, &now
	value, err := strictjson.Encode(s)
	if err != nil {
		return s, err
	}
	b := st.Bucket
	if _, err := b.Create(ctx, s.Name, value); errors.Is(err, bus.ErrTaken) {
		return s, st.errTaken(ctx, s)
	} else if err != nil {
		return s, bus.WriteUnanswered(err)
	}
	return s, nil
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

// Schemas lists all schemas by name, without their bodies.
func (st *Store) Schemas(ctx context.Context) ([]Schema, error) {
	all, err := st.Bucket.List(ctx)
	if err != nil {
		return nil, bus.WriteUnanswered(err)
	}
	list := make([]Schema, 0, len(all))
	for name, v := range all {
		var s Schema
		if err := json.Unmarshal(v.Body, &s); err != nil {
			st.Log.Error("stored schema is unreadable", "schema", name, "err", err)
			continue
		}
		s.Schema = nil
		list = append(list, s)
	}
	slices.SortFunc(list, func(x, y Schema) int { return cmp.Compare(x.Name, y.Name) })
	return list, nil
}

// Rows lists all schemas by name, with the agents that name them.
func (st *Store) Rows(ctx context.Context) ([]Row, error) {
	all, err := st.Schemas(ctx)
	if err != nil {
		return nil, err
	}
	users, err := st.UsersByName()
	rows := make([]Row, len(all))
	for i, s := range all {
		rows[i] = s.Row(users[s.Name])
	}
	return rows, err
}

// RowOf returns one schema with the agents that name it.
func (st *Store) RowOf(ctx context.Context, name string) (Row, error) {
	s, err := st.Schema(ctx, name)
	if err != nil {
		return Row{}, err
	}
	users, err := st.UsersByName()
	return s.Row(users[name]), err
}

// Row returns the schema with the agents that name it.
func (s Schema) Row(users []string) Row { return Row{s, append([]string{}, users...)} }

// Schema returns one schema by name. An unknown name is run.SchemaNotFound.
func (st *Store) Schema(ctx context.Context, name string) (s Schema, err error) {
	if err := agent.CheckName("output_schema_name", name); err != nil {
		return s, err
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

// DeleteSchema deletes a schema that no agent names. Accepted runs keep their copy of it.
func (st *Store) DeleteSchema(ctx context.Context, name string) error {
	if _, err := st.Schema(ctx, name); err != nil {
		return err
	}
	users, err := st.AgentsUsing(ctx, name)
	switch {
	case err != nil:
		return err
	case len(users) > 0:
		return fault.Newf(fault.Conflict, "Schema %q is the output schema of agent %q; change or delete that first",
			name, users[0]).With("output_schema_name", name).With("agent_names", users)
	}
	b := st.Bucket
	for range 8 { // others may delete and create it at the same time
		_, rev, err := b.Get(ctx, name)
		if errors.Is(err, bus.ErrNotFound) {
			return nil
		} else if err != nil {
			return bus.WriteUnanswered(err)
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
