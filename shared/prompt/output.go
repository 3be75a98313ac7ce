package prompt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"ao/shared/run"
	"ao/shared/strictjson"
)

// maxIndented is how large the JSON in a text may get by being indented, in bytes; otherwise it is shown on one line.
const maxIndented = 512 << 10

// Format returns the request to answer in this schema. The schema's text cannot end the fence around it.
func Format(schema json.RawMessage) string {
	text := pretty(schema)
	fence := strings.Repeat("`", max(3, longest(text, '`')+1))
	return "## Required Output Format\n\nYou MUST provide structured output as JSON conforming to this schema:\n\n" +
		fence + "json\n" + text + "\n" + fence + "\n\n" +
		"Your final response MUST be valid JSON that matches this schema exactly. Output ONLY the JSON, no " +
		"additional text."
}

// Retry returns the prompt after an answer that did not match the schema: the errors, the answer, and the schema. At
// most so many bytes of the answer are shown, its start and end, with a note about the rest; 0: all. A line of it that
// looks like a heading of this text gets a backslash, so that the answer cannot pretend to be the schema.
func Retry(errors []run.OutputError, previous string, schema json.RawMessage, most int) string {
	var b strings.Builder
	b.WriteString("Your previous response did not match the required JSON schema.\n\n" + headErrors + "\n")
	for _, e := range errors {
		fmt.Fprintf(&b, "- %s: %s\n", e.Path, e.Message)
	}
	fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n%s\n\n", headPrevious, plainHeadings(middleCut(previous, most)), headSchema,
		pretty(schema))
	b.WriteString("Please provide a corrected response that matches the schema exactly.\nOutput ONLY the valid JSON, " +
		"no additional text.")
	return b.String()
}

// The headings of Retry.
const (
	headErrors   = "## Validation Errors:"
	headPrevious = "## Your Previous Response:"
	headSchema   = "## Required Schema:"
)

// plainHeadings puts a backslash before lines that look like a heading of Retry, in any case, level and spacing.
func plainHeadings(text string) string {
	var b strings.Builder
	kept := 0
	for i := 0; i < len(text); {
		end, width := len(text), 0
		if n := strings.IndexAny(text[i:], breaks); n >= 0 {
			end = i + n
			_, width = utf8.DecodeRuneInString(text[end:])
		}
		line := strings.TrimLeft(text[i:end], " \t>*-")
		title := strings.Join(strings.Fields(strings.ToLower(strings.TrimLeft(line, "#"))), " ")
		for _, head := range []string{headErrors, headPrevious, headSchema} {
			if strings.HasPrefix(line, "#") && strings.HasPrefix(title, strings.ToLower(strings.Trim(head, "# :"))) {
				at := end - len(line)
				b.WriteString(text[kept:at])
				b.WriteByte('\\')
				kept = at
			}
		}
		i = end + max(width, 1)
	}
	if kept == 0 && b.Len() == 0 {
		return text
	}
	b.WriteString(text[kept:])
	return b.String()
}

// middleCut returns the text, or its start and end with a line between them that says how many bytes are missing.
func middleCut(text string, most int) string {
	if most <= 0 || len(text) <= most {
		return text
	}
	head, tail := strings.ToValidUTF8(text[:most*2/3], ""), strings.ToValidUTF8(text[len(text)-most/3:], "")
	return fmt.Sprintf("%s\n[Cut here. Bytes missing: %d]\n%s", head, len(text)-len(head)-len(tail), tail)
}

// pretty returns a schema indented by two spaces, with its keys in order.
func pretty(schema json.RawMessage) string {
	return strictjson.Indent(bytes.TrimSpace(schema), maxIndented)
}

// longest returns the length of the longest run of a character.
func longest(text string, of byte) (most int) {
	run := 0
	for i := range len(text) {
		run++
		if text[i] != of {
			run = 0
		}
		most = max(most, run)
	}
	return most
}
