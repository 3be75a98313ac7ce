package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"ao/coordinator/projection"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

// replay reads the history anew, and compares what everybody says about every run. It runs beside the loop.
func (o *oracle) replay() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var fresh *client
	_ = o.loop.call(ctx, &act{key: "connect", do: func() time.Duration { fresh = o.connect("reader"); return 0 }})
	first := o.coordinators[0]
	anew := reader{history: newHistory(fresh, projection.Config{Log: slog.New(slog.DiscardHandler), Key: first.keys.Of,
		ValidChecked: first.keys.ValidChecked})}
	ended := make(chan struct{})
	go func() { _ = anew.Run(ctx); close(ended) }()
	for range 1000 {
		if anew.Ready() == nil {
			break
		}
		pause(ctx, 20*time.Millisecond)
	}
	o.loop.see()
	if o.losses.any {
		o.inOrder()
	}
	var readers [coordinatorCount]reader
	for i, c := range o.coordinators {
		readers[i].history = c.history
	}
	for _, id := range o.order {
		want, err := anew.get(ctx, id)
		o.kept(id, want, err)
		for i, c := range o.coordinators {
			got, err2 := readers[i].get(ctx, id)
			if o.losses.hidden[o.runs[id].session] {
				continue
			}
			// A late write and the repeated request's were both stored, as accepted and as queued. The first of them
			// is truncated.
			if o.made[id] == ambiguous && o.world.runs.first > 1 {
				got.CreatedAt, want.CreatedAt = time.Time{}, time.Time{}
			}
			if mine, replayed := shown(got, err2), shown(want, err); mine != replayed && mine+replayed != mine &&
				mine+replayed != replayed { // nobody has to forget truncated runs at the same time
				o.fail("run %s is %s for %s, and %s after a replay", id, mine, c.name, replayed)
			}
		}
	}
	cancel()
	<-ended
}

// reader reads runs when nothing is written any more, so it asks NATS once whether there are more.
type reader struct {
	history
	complete bool
}

func (r *reader) get(ctx context.Context, id string) (run.Run, error) {
	if _, open := r.Active(id); r.complete && !open && !r.Ended(id) {
		return run.Run{}, fault.Newf(fault.NotFound, "there is no run %s", id)
	}
	got, err := r.Get(ctx, id)
	r.complete = r.complete || fault.KindOf(err) == fault.NotFound
	return got, err
}

// kept checks that an accepted run exists and has ended as its worker said.
func (o *oracle) kept(id string, r run.Run, err error) {
	p := o.runs[id]
	switch {
	case o.damaged[p.session]:
	case err != nil && fault.KindOf(err) == fault.NotFound: // truncated or deleted
		deleted := subject.Deleted(subject.Partition(p.session), p.session)
		if o.stored[id] != "" && !o.closed[id] || o.world.runs.first == 1 && o.world.runs.bySubject[deleted] == 0 {
			o.fail("accepted run %s is lost: %v", id, err)
		}
	case err != nil:
		o.fail("accepted run %s cannot be read: %v", id, err)
	case !r.Status.Final():
		o.fail("accepted run %s has not ended: %s", id, r.Status)
	default:
		key := o.secret.Of(id, r.Attempt)
		if said, ok := o.results[id+" "+key]; ok && said == run.Completed && said != r.Status {
			o.fail("run %s ended as %s, and its worker said %s", id, r.Status, said)
		}
		o.answered(p, r)
		o.notified(p)
	}
}

// answered checks what became of an answer that must match a schema.
func (o *oracle) answered(p *promise, r run.Run) {
	if w := p.asked.With; w.Schema {
		valid := w.Work.Answer == `{"ok":true}`
		if r.Status == run.Completed && (!valid || w.Work.Fails) {
			o.fail("run %s completed with the answer %s, which does not match", p.run, w.Work.Answer)
		}
		if r.Error != nil && r.Error.Code == "OutputSchemaValidationError" && valid {
			o.fail("run %s failed with the answer %s, which matches", p.run, w.Work.Answer)
		}
	}
}

func shown(r run.Run, err error) string {
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return ""
	case err != nil:
		return err.Error()
	}
	code := ""
	if r.Error != nil {
		code = r.Error.Code
	}
	return fmt.Sprint(r.Status, " ", code, " attempt ", r.Attempt, " of ", r.SessionID, " at ", r.CreatedAt)
}
