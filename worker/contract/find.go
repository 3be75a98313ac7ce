package contract

import (
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"unicode"

	"ao/shared/wire"
)

// maxCandidates is how many values of one answer are looked at: the last ones of its blocks, and the last ones of its text.
const maxCandidates = 10_000

// find takes the JSON value from an answer, byte for byte as it stands there, and counts the values that could have been meant; nil:
// there is none. It is the first of these:
//
//  1. the whole text
//  2. the last fenced block that fits
//  3. the last object or array in the text that fits
//  4. the last fenced block that is JSON
//  5. the last object or array in the text
//
// What stands in a reasoning block is never the answer. strict: only the whole text counts, as the model wrote it. JSON is what
// wire.Check takes: no key twice, no trailing comma, no NaN. The time is proportional to the text's length, whatever is in it.
func find(text string, strict bool, fits func(json.RawMessage) bool) (value json.RawMessage, candidates int) {
	text = trim(text)
	if whole := json.RawMessage(text); wire.Check(whole) == nil {
		return whole, 1
	}
	if strict {
		return nil, 0
	}
	text = trim(visible(text))
	if whole := json.RawMessage(text); wire.Check(whole) == nil {
		return whole, 1
	}
	blocks := values(text, newest(fenced(text)), nil)
	parts := values(text, newest(bare(text)), blocks)
	for _, each := range [][]candidate{blocks, parts} {
		for _, c := range each {
			if fits(c.value) {
				return c.value, len(blocks) + len(parts)
			}
		}
	}
	if all := append(blocks, parts...); len(all) > 0 {
		return all[0].value, len(all)
	}
	return nil, 0
}

// candidate is a JSON value of an answer, and where it begins.
type candidate struct {
	begin int
	value json.RawMessage
}

// newest keeps the last maxCandidates spans.
func newest(spans iter.Seq[span]) []span {
	var kept []span
	for s := range spans {
		if len(kept) == 2*maxCandidates {
			kept = append(kept[:0], kept[maxCandidates:]...)
		}
		kept = append(kept, s)
	}
	return kept[max(0, len(kept)-maxCandidates):]
}

// values are the spans that are JSON and not among the blocks, the last one first.
func values(text string, spans []span, blocks []candidate) (found []candidate) {
	block := make(map[int]bool, len(blocks))
	for _, b := range blocks {
		block[b.begin] = true
	}
	for _, s := range slices.Backward(spans) {
		if value := json.RawMessage(text[s.begin:s.end]); !block[s.begin] && wire.Check(value) == nil {
			found = append(found, candidate{s.begin, value})
		}
	}
	return found
}

// trim takes from a text what is around it: white space, and the mark that says it is UTF-8.
func trim(text string) string {
	return strings.TrimFunc(text, func(r rune) bool { return r == '\ufeff' || unicode.IsSpace(r) })
}
