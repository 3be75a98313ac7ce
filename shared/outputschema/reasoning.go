package outputschema

import (
	"iter"
	"regexp"
	"slices"
	"strings"
)

// reasoning matches the tags around a model's reasoning: <think> and similar ones, Mistral's [THINK], Kimi's
// triangles. A closing tag has a slash; that of <|begin_of_thought|> is <|end_of_thought|>.
var reasoning = regexp.MustCompile(
	`(?i)<(/?)(?:[a-z]+:)?(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad)(?:\s[^<>]{0,200})?>|` +
		`(?-i:\[(/?)THINK\])|◁(/?)think▷|<\|(?:begin|(end))_of_thought\|>`)

// visible returns the text without its reasoning blocks. An unclosed block hides the rest. One without a start,
// since the prompt had it, hides what precedes its end. A tag within a JSON value is in a string, and one right
// after a backtick is only mentioned: neither hides anything.
func visible(text string) string {
	tags := reasoning.FindAllStringSubmatchIndex(text, -1)
	if tags == nil {
		return text
	}
	var in []span
	for s := range unfenced(text) {
		in = append(in, s)
	}
	var b strings.Builder
	begin, hidden := 0, false // what follows begin is shown, or hidden
	for _, tag := range tags {
		at := tag[0]
		i, _ := slices.BinarySearchFunc(in, at, func(s span, at int) int { return s.end - at })
		if i < len(in) && in[i].begin < at && at < in[i].end || at > 0 && text[at-1] == '`' {
			continue
		}
		closing := false
		for g := 2; g < len(tag); g += 2 {
			closing = closing || tag[g] >= 0 && tag[g] < tag[g+1]
		}
		switch {
		case closing && !hidden: // its beginning stood in the prompt
			b.Reset()
			begin = tag[1]
		case closing:
			begin, hidden = tag[1], false
		case !hidden:
			b.WriteString(text[begin:at] + "\n")
			hidden = true
		}
	}
	if !hidden {
		b.WriteString(text[begin:])
	}
	return b.String()
}

// unfenced finds the outermost objects and arrays of a text, in order. Those within a broken one count.
func unfenced(text string) iter.Seq[span] {
	return func(yield func(span) bool) {
		r := reader{text: []byte(text)}
		for i := 0; ; {
			n := strings.IndexAny(text[i:], "{[")
			if n < 0 {
				return
			}
			end, _ := r.value(i + n)
			for _, s := range r.closed {
				if !yield(s) {
					return
				}
			}
			i = end
		}
	}
}
