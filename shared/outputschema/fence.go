package outputschema

import (
	"iter"
	"strings"
)

// fenced finds the fenced blocks of a text that contain one JSON value, with any info string. A fence of
// backticks may start anywhere, one of tildes at the start of a line. The value starts on the fence's line or
// the next one, and is followed by a fence or the end of the text. So fences within strings end nothing, and
// neither indentation nor a missing end matters.
func fenced(text string) iter.Seq[span] {
	return func(yield func(span) bool) {
		r, l := reader{text: []byte(text)}, line{end: -1}
		var outer string // the fence of a block that is not JSON
		for i := 0; ; {
			at, fence := nextFence(text, i)
			if fence == "" {
				return
			}
			l.find(text, at)
			i = at + len(fence)
			info := text[i:max(i, l.end)]
			switch {
			case at == l.first && outer != "" && strings.HasPrefix(fence, outer) && strings.TrimSpace(info) == "":
				outer = ""
				continue
			case at != l.first && fence[0] == '~':
				continue
			}
			inline := strings.Index(info, fence[:3]) // it is inline code
			block, end := r.block(text, i, i+len(info), fence[0], inline >= 0)
			switch {
			case end > 0:
				if !yield(block) {
					return
				}
				i, outer = end, ""
			case inline >= 0:
				i += inline + len(fenceAt(text, i+inline))
			case at == l.first:
				outer = fence
			}
		}
	}
}

type line struct {
	first int // the first character that is not a space or a quotation mark
	end   int
}

// find moves to the line of offset i, which is not before it.
func (l *line) find(text string, i int) {
	for i > l.end {
		begin := l.end + 1
		l.end = len(text)
		if begin < len(text) {
			if n := strings.IndexByte(text[begin:], '\n'); n >= 0 {
				l.end = begin + n
			}
		}
		l.first = l.end - len(strings.TrimLeft(text[begin:l.end], " \t>"))
	}
}

const infoLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-_."

// block reads the one JSON value of a block whose info string is at text[i:end], and its closing fence. after
// is the offset after that, 0 if there is no such value.
func (r *reader) block(text string, i, end int, mark byte, inline bool) (block span, after int) {
	word := end - len(strings.TrimLeft(text[i:end], infoLetters))
	tried, places := -1, []int{i, word, end}
	if inline { // then it is on that line
		places = places[:2]
	}
	for _, from := range places {
		begin := space(text, from)
		switch {
		case begin == tried, begin == len(text):
			continue
		case begin < end && !inline && text[begin] != '{' && text[begin] != '[': // more of the info
			continue
		}
		tried = begin
		to, ok := r.value(begin)
		if !ok {
			continue
		}
		rest := space(text, to)
		if fence := fenceAt(text, rest); rest == len(text) || len(fence) >= 3 && fence[0] == mark {
			return span{begin, to}, rest + len(fence)
		}
	}
	return span{}, 0
}

// nextFence returns the next run of three or more backticks or tildes from i on.
func nextFence(text string, i int) (at int, fence string) {
	for {
		n := strings.IndexAny(text[i:], "`~")
		if n < 0 {
			return len(text), ""
		}
		i += n
		fence = fenceAt(text, i)
		if len(fence) >= 3 {
			return i, fence
		}
		i += len(fence)
	}
}

// fenceAt returns the run of one character, a backtick or a tilde, that starts at i.
func fenceAt(text string, i int) string {
	if i >= len(text) || text[i] != '`' && text[i] != '~' {
		return ""
	}
	return text[i : len(text)-len(strings.TrimLeft(text[i:], text[i:i+1]))]
}

// space returns the offset after the white space at i.
func space(text string, i int) int { return len(text) - len(strings.TrimLeft(text[i:], " \n\t\r")) }
