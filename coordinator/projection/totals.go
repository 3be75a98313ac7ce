package projection

import (
	"ao/coordinator/projection/state"
	"ao/nats/subject"
	"ao/shared/run"
)

// Totals is what this projection has counted since it caught up.
type Totals struct {
	Accepted  uint64 `json:"accepted"`
	Retried   uint64 `json:"retried"` // attempts that failed and were followed by another
	Completed uint64 `json:"completed"`
	Failed    uint64 `json:"failed"`
	Stopped   uint64 `json:"stopped"`
}

// count adds a change.
func (t *Totals) count(ch state.Change) {
	switch {
	case ch.Before == "" && ch.RunID != "":
		t.Accepted++
	case ch.Kind == subject.EndedKind && ch.After == run.Pending:
		t.Retried++
	case ch.After == run.Completed:
		t.Completed++
	case ch.After == run.Failed:
		t.Failed++
	case ch.After == run.Stopped:
		t.Stopped++
	}
}
