package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"ao/coordinator/journal"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/prompt"
	"ao/shared/run"
	"ao/shared/wire"
)

// A turn tells of at most so many children; more come in the next one.
const maxChildren = 1000

// callBackAll looks at every parent that can be told of children.
func (c *Coordinator) callBackAll(ctx context.Context) {
	if c.Journal.Ready() == nil && c.bus.Connected() {
		c.callBack(ctx, c.Journal.Owing())
	}
}

// callBack tells parents of their ended children, each with a turn of its session (contract section 7). It acts on what the fold
// says, and what several coordinators do at once the stream decides (decision 0014): children are told in the order of their
// ends, and the record is named after the first of them, so that two that have a child in common have the same name.
func (c *Coordinator) callBack(ctx context.Context, parents []journal.Owing) {
	for _, o := range parents {
		if o.Misses > 0 && time.Since(o.Ended) < run.Backoff(o.Misses) {
			continue // the turn before ended before it began; the next look comes soon
		}
		if _, busy := c.calling.LoadOrStore(o.Session, true); busy {
			continue
		}
		c.calls.Go(func() {
			defer c.calling.Delete(o.Session)
			switch told, err := c.tell(ctx, o); {
			case err == nil:
				c.log.Info("parent told", "session", o.Session, "children", told)
			case errors.Is(err, bus.ErrTaken):
				c.log.Debug("another coordinator told the parent", "session", o.Session)
			case ctx.Err() == nil:
				c.log.Warn("parent not told yet; trying again", "session", o.Session, "err", err)
			}
		})
	}
}

// tell appends the turn and the record of what it tells, both or neither. ErrTaken: that has been done.
func (c *Coordinator) tell(ctx context.Context, o journal.Owing) (told int, err error) {
	children, err := c.children(ctx, o.Children)
	if err != nil {
		return 0, err
	}
	spec, told, err := c.turn(ctx, o, children)
	if err != nil {
		return 0, err
	}
	record := run.Callback{V: run.Version, RunID: spec.ID, At: spec.CreatedAt}
	for _, child := range o.Children[:told] {
		record.Children = append(record.Children, child.RunID)
	}
	if err := c.offload(ctx, &spec); err != nil {
		return 0, err
	}
	turn, err := run.Accepted{V: run.Version, Spec: spec}.Encode()
	if err != nil {
		return 0, err
	}
	body, err := json.Marshal(record)
	if err != nil {
		return 0, err
	}
	part := subject.Partition(o.Session)
	seq, err := c.bus.AppendAll(ctx, bus.Entry{Subject: subject.Accepted(part, o.Session, spec.ID), Body: turn},
		bus.Entry{Subject: subject.Callback(part, o.Session, o.Children[0].RunID, o.Told), Body: body})
	if err == nil {
		c.written(seq)
	}
	return told, err
}

// children reads how they ended. A result that is no longer kept is told as none.
func (c *Coordinator) children(ctx context.Context, owed []journal.Child) (all []prompt.Child, err error) {
	size := 0
	for _, child := range owed[:min(len(owed), maxChildren)] {
		o, err := c.Outcome(ctx, child.RunID)
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return nil, err
		}
		all = append(all, prompt.Child{RunID: child.RunID, SessionID: child.SessionID, Status: child.Status, Result: o.Result, Error: o.Error})
		if o.Result != nil {
			size += len(o.Result.Data)
		}
		if int64(size) > c.MaxPayload {
			break // as many as one turn could hold; they are in memory
		}
	}
	return all, nil
}

// turn is the parent's run that tells of children: of all, or of as many of the first as fit into one. A single one that does
// not fit is cut.
func (c *Coordinator) turn(ctx context.Context, o journal.Owing, children []prompt.Child) (spec run.Spec, told int, err error) {
	told = len(children)
	for most := c.MaxPayload / 2; ; {
		text := prompt.Callback(children[:told], int(most))
		parameters, err := wire.Encode(map[string]string{"prompt": text})
		if err != nil {
			return spec, 0, err
		}
		spec, err = c.resume(ctx, o, parameters)
		switch {
		case fault.KindOf(err) != fault.TooLarge:
			return spec, told, err
		case told > 1:
			told = (told + 1) / 2
		case most > 1<<10:
			most /= 4
		default:
			return spec, 0, err
		}
	}
}

// resume is a run that goes on with the session, with the session's own parent and mode. An agent that cannot be used any more
// is taken as the session's last run had it: who is owed a callback gets it.
func (c *Coordinator) resume(ctx context.Context, o journal.Owing, parameters json.RawMessage) (run.Spec, error) {
	p, err := c.plan(ctx, run.Request{Type: run.Resume, SessionID: o.Session, Mode: run.AsyncPoll, Parameters: parameters})
	spec := p.spec
	if kind := fault.KindOf(err); kind == fault.NotFound || kind == fault.Conflict {
		last, lastErr := c.Journal.Spec(ctx, o.LastRun)
		if lastErr != nil {
			return spec, lastErr
		}
		if int64(len(parameters)+len(last.Blueprint)) > c.MaxPayload {
			return spec, fault.New(fault.TooLarge, "", "the callback is too large")
		}
		spec, err = last, nil
		spec.Type, spec.Body, spec.Model, spec.CallbackTo = run.Resume, nil, "", ""
		spec.Input = &run.Input{Parameters: parameters, Blueprint: last.Blueprint}
		spec.CreatedAt = time.Now().UTC()
	}
	spec.ID, spec.Mode, spec.Parent = run.NewID(), o.Mode, o.Parent
	return spec, err
}

// Callbacks lists the runs that call back.
func (c *Coordinator) Callbacks(ctx context.Context, q journal.Query) (journal.CallbackPage, error) {
	c.own(ctx)
	return c.Journal.Callbacks(ctx, q)
}
