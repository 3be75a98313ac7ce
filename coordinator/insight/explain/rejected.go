package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"ao/nats/subject"
	"ao/shared/run"
)

// rejections are the answers that did not match, as the session's readers were told of them: in messages, alone or in packs.
func (n *narrator) rejections(ctx context.Context) (steps []Step, err error) {
	r := n.t.Run
	for _, kind := range []string{run.EventMessage, run.PackKind} {
		more, err := n.rejectionsIn(ctx, subject.Event(subject.Partition(r.SessionID), r.SessionID, r.ID, kind))
		if err != nil {
			return nil, err
		}
		steps = append(steps, more...)
	}
	slices.SortStableFunc(steps, func(a, b Step) int { return a.At.Compare(b.At) })
	return steps, nil
}

// rejectionsIn reads no more than storyEvents messages, and so many of their events.
func (n *narrator) rejectionsIn(ctx context.Context, filter string) (steps []Step, err error) {
	told := 0
	for after, read := uint64(0), 0; read < storyEvents && told < storyEvents; read += storyPage {
		page, err := n.Records.Events(ctx, filter, after, storyPage)
		if err != nil {
			return nil, err
		}
		for _, m := range page {
			after = m.Seq
			for _, e := range n.Told(m) {
				if e.Type != run.EventMessage {
					continue
				}
				if told++; told > storyEvents {
					return steps, nil
				}
				if detail, ok := rejection(e); ok {
					steps = append(steps, Step{At: m.Time.UTC(), What: stepRejected, Detail: detail})
				}
			}
		}
		if len(page) < storyPage {
			break
		}
	}
	return steps, nil
}

// rejection is what a message says of an answer that does not fit; not ok: it is about something else.
func rejection(e run.Event) (string, bool) {
	var m run.Message
	if json.Unmarshal(e.Body, &m) != nil || m.Rejected() == nil {
		return "", false
	}
	r := m.Rejected()
	say := fmt.Sprintf("answer %d of %d: it does not match the output schema", r.Attempt, r.Of)
	for _, w := range r.Errors {
		if len(say) > detailLength {
			break
		}
		say += fmt.Sprintf(" - %s: %s", w.Path, w.Message)
	}
	return brief(say, detailLength), true
}
