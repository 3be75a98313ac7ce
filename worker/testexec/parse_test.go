package testexec

import "testing"

// A caller's output schema follows its prompt, and is no part of the last directive's text.
func TestOutputSchemaIsNoDirective(t *testing.T) {
	script := parse("@json {\"a\":1}\n\n" + requiredFormat + "\n\n@json {}")
	if len(script) != 1 || script[0].text != `{"a":1}` {
		t.Errorf("got %+v", script)
	}
}

// The answer after a rejected one follows the schema that is told with the errors.
func TestSchemaOfARejectedAnswer(t *testing.T) {
	text := "Not valid.\n\n## Your Previous Response:\n{}\n\n## Required Schema:\n{\"type\":\"object\"}\n\nAnswer."
	if got := string(outputSchema(text)); got != `{"type":"object"}` {
		t.Errorf("got %s", got)
	}
}
