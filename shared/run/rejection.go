package run

import (
	"encoding/json"
	"fmt"
	"strings"

	"ao/shared/strictjson"
)

// Rejection is the part of a message about an answer that does not match the output schema.
type Rejection struct {
	Attempt int           `json:"attempt"` // from 1: the answer of the run itself
	Of      int           `json:"of"`      // how many answers the run may give
	Errors  []OutputError `json:"errors"`  // the first ones; the message's text has all
}

// maxRejectionErrors limits the errors in a Rejection: an event is limited, and its text has all of them.
const maxRejectionErrors = 20

// rejectedOutputLabel precedes the answer in the text of a rejection.
const rejectedOutputLabel = "\nThe rejected output:\n"

// RejectionMessage returns a system message about the n-th answer: its errors and the answer itself.
func RejectionMessage(n, of int, wrong []OutputError, answer string) json.RawMessage {
	var b strings.Builder
	fmt.Fprintf(&b, "Output rejected, attempt %d of %d: it does not match the output schema\n", n, of)
	for _, w := range wrong {
		fmt.Fprintf(&b, "- %s: %s\n", w.Path, w.Message)
	}
	fmt.Fprintf(&b, rejectedOutputLabel+"%s", answer)
	m := textMessage("system", b.String())
	m.Rejection = &Rejection{Attempt: n, Of: of, Errors: wrong[:min(len(wrong), maxRejectionErrors)]}
	raw, err := strictjson.Encode(m)
	if err != nil { // strings and numbers can always be encoded
		panic(err)
	}
	return raw
}

// Rejected returns the rejection in a system message, nil if it is about something else.
func (m *Message) Rejected() *Rejection {
	if m.Role != "system" {
		return nil
	}
	return m.Rejection
}

// RejectedOutput returns the answer in the message of a rejection.
func (m *Message) RejectedOutput() string {
	if len(m.Content) == 0 {
		return ""
	}
	_, answer, _ := strings.Cut(m.Content[0].Text, rejectedOutputLabel)
	return answer
}
