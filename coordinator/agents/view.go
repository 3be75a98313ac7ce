package agents

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/strictjson"
)

// The origins of an agent.
const (
	FromAPI    = "api"
	FromFile   = "file"
	FromRunner = "runner"
)

// View is an agent as the API shows it.
type View struct {
	agent.Blueprint
	Hash     string   `json:"agent_hash"` // of the definition without status; runs that carry it show the same
	Origin   string   `json:"origin"`
	Path     string   `json:"path,omitempty"` // of the file; not shown to sessions
	Editable bool     `json:"editable"`
	Reason   string   `json:"reason,omitempty"` // why it is not editable
	Drafts   []string `json:"drafts,omitempty"` // shown to admins
	// whose copy was edited here; not shown to sessions
	UnusedFile *agent.UnusedFile `json:"unused_file,omitempty"`
}

// view returns an agent with its origin and whether it can be changed here.
func (k *Resolved) view(runners Runners) View {
	switch {
	case k.Owners != nil:
		return View{
			Blueprint: k.WithRunners(runners.Serving(k.Name, k.OwnerHash())), Hash: k.Hash(), Origin: FromRunner,
			Reason: "it belongs to runner " + k.RunnerID + ": change it in the agents_dir of profile " +
				k.Profile + ", or save a copy",
		}
	case k.file != nil:
		return View{Blueprint: k.Blueprint, Hash: k.Hash(), Origin: FromFile, Path: k.file.Path,
			Editable: k.file.reason == "", Reason: k.file.reason, UnusedFile: k.file.unused}
	}
	return View{Blueprint: k.Blueprint, Hash: k.Hash(), Origin: FromAPI, Editable: true}
}

// View returns one agent by name.
func (a *Catalog) View(ctx context.Context, name string) (View, error) {
	if k, ok := a.Find(name); ok && k.file != nil { // the file may just have changed
		a.folders.load(false)
	}
	k, err := a.Get(ctx, name)
	if err != nil {
		return View{}, err
	}
	return k.view(a.cfg.Runners), nil
}

// Editable returns why an agent cannot be changed over the API; nil: it can.
func (a *Catalog) Editable(ctx context.Context, name string) error {
	v, err := a.View(ctx, name)
	if err == nil && !v.Editable {
		err = fault.Newf(fault.Conflict, "Agent %q cannot be changed here: %s", name, v.Reason).With("agent_name", name)
	}
	return err
}

// Exists reports whether an agent, or a broken file of one, has this name.
func (a *Catalog) Exists(name string) bool {
	_, ok := a.Find(name)
	return ok || slices.ContainsFunc(a.BrokenAgents(), func(b agent.BrokenFile) bool { return b.Name == name })
}

// Views lists the agents with this status by name; empty: any status.
func (a *Catalog) Views(status string) ([]View, error) {
	list, err := a.Agents(status)
	if err != nil {
		return nil, err
	}
	views := make([]View, 0, len(list))
	for _, b := range list {
		k, ok := a.Find(b.Name)
		if !ok { // deleted meanwhile
			continue
		}
		v := k.view(a.cfg.Runners)
		v.Blueprint = b
		views = append(views, v)
	}
	return views, nil
}

// Tag identifies this version of the definition. It is the same at every coordinator.
func (v View) Tag() string {
	b := v.Blueprint
	b.RunnerID, b.Runners, b.CreatedAt, b.ModifiedAt = "", nil, nil, nil
	raw, err := strictjson.Encode(b)
	if err != nil { // cannot happen: every member was read from JSON
		panic(err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}

// Match reports whether a tag is one that the caller accepts; nil accepts any.
type Match func(tag string) bool

// check refuses a version that the caller did not see.
func (m Match) check(v View) error {
	if m == nil || m(v.Tag()) {
		return nil
	}
	return fault.Newf(fault.Stale, "If-Match or If-None-Match excludes the present version of agent %q; see "+
		"current, and send its ETag as If-Match", v.Name).
		With("agent_name", v.Name).With("etag", `"`+v.Tag()+`"`).With("current", v)
}

// Published lists agents for publishers over NATS, without what only administrators see.
func (a *Catalog) Published(status string) (any, error) {
	list, err := a.Views(status)
	for i := range list {
		list[i].Blueprint, list[i].Drafts = list[i].Masked(), nil
	}
	return list, err
}
