// Package outputschema finds the JSON value in a model's answer, and asks for an answer in a schema. Workers
// enforce output schemas with it; the coordinator previews with it what they would do.
package outputschema

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"ao/shared/prompt"
	"ao/shared/strictjson"
)

// maxCandidates limits the examined values of an answer: the last fenced blocks, and the last values of its text.
const maxCandidates = 10_000

// Source is where a candidate is in an answer.
type Source string

// The sources.
const (
	WholeText Source = "whole_text"
	Fenced    Source = "fenced_block"
	Embedded  Source = "embedded" // an object or array within the text
)

// Candidate is a JSON value in an answer, byte for byte.
type Candidate struct {
	Value  json.RawMessage
	Source Source
	begin  int
}

// Result is what an answer contains, with the candidates in order of preference.
type Result struct {
	Candidates []Candidate
	Chosen     int // the candidate that counts; -1: none
}

// Value returns the chosen candidate's value, nil if there is none.
func (f Result) Value() json.RawMessage {
	if f.Chosen < 0 {
		return nil
	}
	return f.Candidates[f.Chosen].Value
}

// Find finds the candidates in an answer and chooses the first of these:
//
//  1. the whole text
//  2. the last fenced block that fits
//  3. the last object or array in the text that fits
//  4. the last fenced block that is JSON
//  5. the last object or array in the text
//
// What prose has in brackets ([1], [ ]) and the repeated schema come last. A piece of a broken or cut object or array
// is no candidate. Reasoning blocks are ignored. strict: only the whole text counts, as the model wrote it. JSON is
// what strictjson.Check accepts: no duplicate keys, no trailing commas, no NaN. The time is proportional to the text's
// length.
func Find(text string, strict bool, schema json.RawMessage, fits func(json.RawMessage) bool) Result {
	text = trim(text)
	if whole := json.RawMessage(text); strictjson.Check(whole) == nil {
		return Result{Candidates: []Candidate{{Value: whole, Source: WholeText}}}
	}
	if strict {
		return Result{Chosen: -1}
	}
	text = trim(visible(text))
	if whole := json.RawMessage(text); strictjson.Check(whole) == nil {
		return Result{Candidates: []Candidate{{Value: whole, Source: WholeText}}}
	}
	all := candidates(text, schema)
	for i, c := range all {
		if fits(c.Value) {
			return Result{all, i}
		}
	}
	return Result{all, min(0, len(all)-1)}
}

// WithFormat returns a text for a model, followed by the request to answer in a schema.
func WithFormat(text string, schema json.RawMessage) string {
	format := prompt.Format(schema)
	if strings.TrimSpace(text) == "" {
		return format
	}
	return text + "\n\n" + format
}

// candidates returns the candidates in a text in order of preference. A piece of a broken value is none. What prose
// has in brackets and the repeated schema come last.
func candidates(text string, schema json.RawMessage) []Candidate {
	var outermost, holes recent
	var unusable []span
	for s, is := range containers(text) {
		switch is {
		case complete:
			outermost.add(s)
		case broken:
			unusable = append(unusable, s)
		}
	}
	for s := range fenced(text) {
		i, _ := slices.BinarySearchFunc(unusable, s.begin, func(s span, at int) int { return s.end - at })
		if i == len(unusable) || s.begin <= unusable[i].begin {
			holes.add(s)
		}
	}
	all := values(text, holes.last(), Fenced, nil)
	all = append(all, values(text, outermost.last(), Embedded, all)...)
	repeated := compact(schema)
	late := func(c Candidate) bool {
		return c.Source == Embedded && isMark(text, span{c.begin, c.begin + len(c.Value)}) ||
			len(c.Value) >= len(repeated) && bytes.Equal(compact(c.Value), repeated)
	}
	var first, then []Candidate
	for _, c := range all {
		if late(c) {
			then = append(then, c)
		} else {
			first = append(first, c)
		}
	}
	return append(first, then...)
}

// compact returns JSON without its white space, empty if it is none.
func compact(value json.RawMessage) []byte {
	var b bytes.Buffer
	_ = json.Compact(&b, value)
	return b.Bytes()
}

// recent keeps the last maxCandidates spans.
type recent []span

func (r *recent) add(s span) {
	if len(*r) == 2*maxCandidates {
		*r = append((*r)[:0], (*r)[maxCandidates:]...)
	}
	*r = append(*r, s)
}

func (r recent) last() []span { return r[max(0, len(r)-maxCandidates):] }

// values returns the spans that are JSON and do not start in one of the blocks, the last one first.
func values(text string, spans []span, from Source, blocks []Candidate) (found []Candidate) {
	block := make(map[int]bool, len(blocks))
	for _, b := range blocks {
		block[b.begin] = true
	}
	for _, s := range slices.Backward(spans) {
		if value := json.RawMessage(text[s.begin:s.end]); !block[s.begin] && strictjson.Check(value) == nil {
			found = append(found, Candidate{value, from, s.begin})
		}
	}
	return found
}

// trim removes white space and a byte order mark.
func trim(text string) string {
	return strings.TrimFunc(text, func(r rune) bool { return r == '\ufeff' || unicode.IsSpace(r) })
}
