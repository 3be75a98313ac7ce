package projection

import "ao/nats/subject"

// Effect is what follows from records, as a set of bits: who acts on it finds by asking the read model what there is to
// do.
type Effect uint32

// The effects of records, and of what NATS says of them.
const (
	TurnDue     Effect = 1 << iota // Eligible has something new
	ResultDue                      // Offers has
	CallbackDue                    // Due has
	TreeStopDue                    // Halting or Suppressing have
	WebhookDue                     // a run ended, or a try was noted, and receivers are yet to be told
	// the history counts as certain again: what was left undone meanwhile is to be done
	HistoryConfirmed
)

// effectOf is what waits to be asked for behind a record.
func effectOf(f *fold, ch *Change) (e Effect) {
	for _, x := range [...]struct {
		effect Effect
		is     bool
	}{
		{TurnDue, len(f.fresh) > 0},
		{ResultDue, len(f.offers) > 0},
		{CallbackDue, len(f.debts.due) > 0},
		{TreeStopDue, f.trees.halted},
		{WebhookDue, len(f.webhooks.hosts.first) > 0 && (ch.After.Final() || ch.Kind == subject.NotifiedKind)},
	} {
		if x.is {
			e |= x.effect
		}
	}
	return e
}
