// Package prompt makes the texts for models. Untrusted text is inserted so that it cannot be taken for part of
// the text around it.
package prompt

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// callbackBlock reports children to their parent.
var callbackBlock = newBlock("agent-callback")

// Child is an ended run of a child session.
type Child struct {
	RunID     string
	SessionID string
	Status    run.Status   // completed, failed or stopped
	Result    *run.Result  // completed
	Error     *fault.Fault // failed or stopped
}

// Callback returns the text that reports ended children to the parent's model, in their order; a single child has
// its own form. At most so many bytes of a child's text are shown, with a note about the rest; 0: all. No text
// of a child can start or end the block.
func Callback(children []Child, most int) string {
	var b strings.Builder
	indented := cmp.Or(most, maxIndented) / max(1, len(children)) // a few KiB that nest deeply would be megabytes
	if len(children) == 1 {
		c := children[0]
		head, ask := "## Child Result", "Please continue with the orchestration based on this result."
		if c.Status != run.Completed {
			head, ask = "## Error", "Please handle this failure and continue with the orchestration."
		}
		fmt.Fprintf(&b, "<%s session=%q status=%q>\n%s\n\n%s\n</%[1]s>\n\n%[6]s", callbackBlock.tag, c.SessionID,
			string(c.Status), head, c.shown(most, indented), ask)
		return b.String()
	}
	fmt.Fprintf(&b, "<%s type=\"aggregated\" count=\"%d\">\n", callbackBlock.tag, len(children))
	for i, c := range children {
		if i > 0 {
			b.WriteString("\n---\n\n")
		}
		fmt.Fprintf(&b, "### Child: %s (status: %s)\n\n%s\n", c.SessionID, c.Status, c.shown(most, indented))
	}
	fmt.Fprintf(&b, "</%s>\n\nPlease continue with the orchestration based on these results.", callbackBlock.tag)
	return b.String()
}

// shown returns the child's text, truncated and neutralized. indented is how large its data may get by being indented.
func (c Child) shown(most, indented int) string {
	text := c.text(indented)
	if most <= 0 || len(text) <= most {
		return callbackBlock.neutralize(text)
	}
	head := strings.ToValidUTF8(text[:most], "")
	return fmt.Sprintf("%s\n\n[Cut here. Bytes missing: %d. GET /runs/%s/result has all of it]",
		callbackBlock.neutralize(head), len(text)-len(head), c.RunID)
}

func (c Child) text(indented int) string {
	switch {
	case c.Status == run.Completed:
		return result(c.Result, indented)
	case c.Error != nil && c.Error.Message != "":
		return c.Error.Message
	case c.Status == run.Stopped:
		return "The run was stopped"
	default:
		return "The run failed without a message"
	}
}

// result returns the data, or else the text. Data is indented where that leaves it small enough.
func result(r *run.Result, indented int) string {
	switch {
	case r == nil:
	case len(r.Data) > 0 && !bytes.Equal(r.Data, []byte("null")):
		return strictjson.Indent(r.Data, indented)
	case r.Text != nil && strings.TrimSpace(*r.Text) != "":
		return *r.Text
	}
	return "(No result available)"
}
