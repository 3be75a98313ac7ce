package outputschema

import (
	"regexp"
	"slices"
	"strings"
)

// reasoning matches the marks around a model's reasoning. Its groups say what a mark is:
//
//	end      the reasoning is over. Without a beginning, all before it was reasoning: the prompt had the beginning.
//	softend  the reasoning is over if it had begun. Otherwise it ends a message, maybe the answer.
//
// The families: <think> and similar tags; Mistral's [THINK]; Kimi's triangles; <|begin_of_thought|>; Cohere's
// <|START_THINKING|>; Gemma's <|channel>thought; harmony's channels, of which only "final" is an answer.
var reasoning = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`<(?P<end>/?)(?:[a-z]+[:_])?` + thinking + `(?:\s[^<>]{0,200})?>`,
	`(?-i:\[(?P<end>/?)THINK\])`,
	`◁(?P<end>/?)think▷`,
	`<\|(?:begin|start|(?P<end>end|/))?(?:_?of)?_?` + thinking + `(?:_(?:begin|start|(?P<end>end)))?\|>`,
	`<\|channel\|>\s*(?:analysis|commentary|(?P<end>final))[^<>]{0,200}(?:<\|constrain\|>[^<>]{0,50})?<\|message\|>`,
	`<\|channel>\s*(?:thought|analysis)\b|(?P<softend><channel\|>)`,
	`(?P<end><\|start_response\|>)|(?P<softend><\|(?:end|return|call)\|>)`,
}, `|`))

const thinking = `(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad)`

// ends reports whether a mark ends reasoning, and whether it does so only where reasoning has begun.
func ends(mark []int) (closing, soft bool) {
	for g, name := range reasoning.SubexpNames() {
		if name != "" && mark[2*g] >= 0 && mark[2*g] < mark[2*g+1] {
			closing, soft = true, name == "softend"
		}
	}
	return closing, soft
}

// visible returns the text without its reasoning blocks. An unclosed block hides the rest. One without a start,
// since the prompt had it, hides what precedes its end. A tag within a JSON value is in a string, and one right
// after a backtick is only mentioned: neither hides anything.
func visible(text string) string {
	tags := reasoning.FindAllStringSubmatchIndex(text, -1)
	if tags == nil {
		return text
	}
	var in []span
	for s, is := range containers(text) {
		if is != broken {
			in = append(in, s)
		}
	}
	var b strings.Builder
	begin, hidden := 0, false // what follows begin is shown, or hidden
	for _, tag := range tags {
		at := tag[0]
		i, _ := slices.BinarySearchFunc(in, at, func(s span, at int) int { return s.end - at })
		if i < len(in) && in[i].begin < at && at < in[i].end || at > 0 && text[at-1] == '`' {
			continue
		}
		closing, soft := ends(tag)
		switch {
		case soft && !hidden:
			b.WriteString(text[begin:at] + "\n")
			begin = tag[1]
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
