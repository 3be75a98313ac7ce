package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"ao/nats/subject"
	"ao/shared/run"
)

// Rejected is an answer that does not match the run's output schema, and why.
type Rejected struct {
	At        time.Time         `json:"at"`
	Attempt   int               `json:"attempt"`             // of the run
	Number    int               `json:"answer"`              // of the attempt's answers, from 1
	Of        int               `json:"of"`                  // how many answers it may give
	Message   string            `json:"message"`             // what is wrong, in one sentence
	Errors    []run.OutputError `json:"errors"`              // the first ones
	Output    string            `json:"output"`              // the answer
	Truncated bool              `json:"truncated,omitempty"` // output is the beginning
	Bytes     int               `json:"bytes,omitempty"`     // how long the answer is, where that is cut
}

// Of rejected answers so many are given, and so much of each.
const (
	mostRejected = 50
	answerLength = 16 << 10
)

// rejectedIn returns the first answers that a story contains.
func rejectedIn(story []Step) (all []Rejected) {
	for _, s := range story {
		if s.rejected != nil && len(all) < mostRejected {
			r := *s.rejected
			r.Attempt = s.Attempt
			all = append(all, r)
		}
	}
	return all
}

// rejections returns the answers that did not match, from the session's events.
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
	seen := 0
	for after, read := uint64(0), 0; read < storyEvents && seen < storyEvents; read += storyPage {
		page, err := n.Records.Events(ctx, filter, after, storyPage)
		if err != nil {
			return nil, err
		}
		for _, m := range page {
			after = m.Seq
			for _, e := range n.Events(m) {
				if e.Type != run.EventMessage {
					continue
				}
				if seen++; seen > storyEvents {
					return steps, nil
				}
				if r := rejection(e); r != nil {
					r.At = m.Time.UTC()
					detail := fmt.Sprintf("answer %d of %d does not match the output schema: %s", r.Number, r.Of,
						r.Message)
					steps = append(steps, Step{At: r.At, What: stepRejected, Detail: brief(detail, detailLength),
						rejected: r})
				}
			}
		}
		if len(page) < storyPage {
			break
		}
	}
	return steps, nil
}

// rejection returns what a message says of an answer that does not fit; nil: it is about something else.
func rejection(e run.Event) *Rejected {
	var m run.Message
	if json.Unmarshal(e.Body, &m) != nil {
		return nil
	}
	r := m.Rejected()
	if r == nil {
		return nil
	}
	var wrong []string
	for _, w := range r.Errors {
		wrong = append(wrong, w.Path+": "+w.Message)
	}
	of := &Rejected{Number: r.Attempt, Of: r.Of, Message: strings.Join(wrong, " - "),
		Errors: append([]run.OutputError{}, r.Errors...), Output: m.RejectedOutput()}
	if n := len(of.Output); n > answerLength {
		of.Truncated, of.Bytes = true, n
		of.Output = strings.ToValidUTF8(of.Output[:answerLength], "")
	}
	of.Output = strings.Clone(of.Output) // the event may be large
	return of
}
