package run

import (
	"encoding/json"
	"fmt"
	"strings"

	"ao/shared/wire"
)

// Rejection is what a message says of an answer that does not match the run's output schema.
type Rejection struct {
	Attempt int           `json:"attempt"` // from 1: the answer of the run itself
	Of      int           `json:"of"`      // how many answers the run may give
	Errors  []OutputError `json:"errors"`  // the first ones; the message's text has all
}

// maxTold is how many errors a Rejection has at most: an event is limited, and its text has them already.
const maxTold = 20

// rejectionHead begins the text of a rejection. Readers of older versions know it by this.
const rejectionHead = "Output rejected, attempt %d of %d: it does not match the output schema\n"

// Reject is a message of the system about the n-th of so many answers: what is wrong with it, and the answer itself.
func Reject(n, of int, wrong []OutputError, answer string) json.RawMessage {
	var b strings.Builder
	fmt.Fprintf(&b, rejectionHead, n, of)
	for _, w := range wrong {
		fmt.Fprintf(&b, "- %s: %s\n", w.Path, w.Message)
	}
	fmt.Fprintf(&b, "\nThe rejected output:\n%s", answer)
	m := text("system", b.String())
	m.Rejection = &Rejection{Attempt: n, Of: of, Errors: wrong[:min(len(wrong), maxTold)]}
	raw, err := wire.Encode(m)
	if err != nil { // strings and numbers can always be written
		panic(err)
	}
	return raw
}

// Rejected gives the rejection that a message of the system is about; nil: it is about something else. Workers of older
// versions write the text alone: of that it is read.
func (m *Message) Rejected() *Rejection {
	switch {
	case m.Role != "system":
		return nil
	case m.Rejection != nil:
		return m.Rejection
	case len(m.Content) == 0:
		return nil
	}
	head, rest, _ := strings.Cut(m.Content[0].Text, "\n")
	var r Rejection
	if n, _ := fmt.Sscanf(head+"\n", rejectionHead, &r.Attempt, &r.Of); n != 2 {
		return nil
	}
	list, _, _ := strings.Cut(rest, "\n\n") // the answer follows
	for _, w := range strings.Split(list, "\n- ") {
		path, message, _ := strings.Cut(strings.TrimPrefix(w, "- "), ": ")
		r.Errors = append(r.Errors, OutputError{Path: path, Message: message})
	}
	return &r
}
