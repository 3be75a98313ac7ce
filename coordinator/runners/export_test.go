package runners

import (
	"context"
	"time"

	"ao/nats/bus"
	"ao/shared/runnerapi"
)

// Owner is an entry of the table of names.
type Owner = owner

const (
	OwnersKey     = ownersKey
	RegistryBytes = registryBytes
)

// SetLastHeard sets when a runner was heard last, and when it left, if it has.
func (r *Registry) SetLastHeard(id string, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.members[id]; m != nil {
		m.heard = since
		if !m.left.IsZero() {
			m.left = since
		}
	}
}

// Tombstones counts the removals that are remembered.
func (r *Registry) Tombstones() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.removed)
}

// Bucket returns the bucket that the registry mirrors.
func (r *Registry) Bucket() *bus.Bucket { return r.cfg.Bucket }

// Fill adds a member whose registration has that many bytes.
func (r *Registry) Fill(m runnerapi.Runner, id string, size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.members[id] = &member{Runner: m, id: id, heard: time.Now(), size: size}
}

// SetStart sets when the process started, and when an agent's runner left.
func (d *Departures) SetStart(began time.Time, agent string, left time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.StartedAt, d.agents[agent] = began, left
}

func (g *Registrar) TakeOver(ctx context.Context, id string, r runnerapi.Runner) (uint64, string, error) {
	return g.takeOver(ctx, id, r)
}

func (g *Registrar) Admit(id string, who runnerapi.Identity, size int) error {
	return g.admit(id, who, size)
}

func (r *Registrations) Write(ctx context.Context, id string, value []byte, rev uint64) error {
	return r.write(ctx, id, value, rev)
}

func (l *Deregistrar) Remove(ctx context.Context, id, instance string) error {
	return l.remove(ctx, id, sameProcess(instance))
}

func (n *Names) Change(ctx context.Context, f func(map[string]Owner) (bool, error)) error {
	return n.change(ctx, f)
}

func (n *Names) Owners(ctx context.Context) (map[string]Owner, uint64, error) { return n.owners(ctx) }
