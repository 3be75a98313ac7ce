package state

import "ao/nats/subject"

// Effect is a set of bits: what follows from a record. Whoever acts on it asks the Worklist for the details.
type Effect uint32

// The effects of records, and of the connection to NATS.
const (
	TurnDue          Effect = 1 << iota // Eligible has something new
	ResultDue                           // NewResults has
	CallbackDue                         // NewCallbacks has
	TreeStopDue                         // StoppingTrees or SuppressedCallbacks have
	WebhookDue                          // a run ended or a try was recorded, and webhooks are pending
	HistoryConfirmed                    // the history is confirmed again: do what was left undone meanwhile
)

// EffectOf returns what is due after a record.
func EffectOf(f *State, ch *Change) (e Effect) {
	for _, x := range [...]struct {
		effect Effect
		is     bool
	}{
		{TurnDue, len(f.fresh) > 0},
		{ResultDue, len(f.results) > 0},
		{CallbackDue, len(f.Callbacks.due) > 0},
		{TreeStopDue, f.Trees.changed},
		{WebhookDue, len(f.Webhooks.Hosts.first) > 0 && (ch.After.Final() || ch.Kind == subject.NotifiedKind)},
	} {
		if x.is {
			e |= x.effect
		}
	}
	return e
}
