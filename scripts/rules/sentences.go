package rules

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode"
)

// maxWords is the longest sentence of a page. Authors aim at 25 words; the rest is room for names.
const maxWords = 30

var (
	codeSpan    = regexp.MustCompile("``.*?``|`[^`]*`")
	linkTarget  = regexp.MustCompile(`\]\([^)]*\)`)
	sentenceEnd = regexp.MustCompile(`[.!?]["')*\]]*\s+`)
	listItem    = regexp.MustCompile(`^\s*(?:[-*]|\d+\.) `)
)

// shortSentences limits the sentences of pages, except in code and tables. Inline code counts as one word.
func shortSentences(h *House) (broken []string) {
	for _, f := range h.Files {
		if path.Ext(f.Path) != ".md" {
			continue
		}
		for _, p := range paragraphs(f.Text) {
			text := linkTarget.ReplaceAllString(codeSpan.ReplaceAllString(p.text, "X"), "")
			for _, sentence := range sentenceEnd.Split(text, -1) {
				if n := words(sentence); n > maxWords {
					broken = append(broken, fmt.Sprintf("%s:%d: a sentence of %d words, the limit is %d: %.60s",
						f.Path, p.line, n, maxWords, sentence))
				}
			}
		}
	}
	return broken
}

// paragraph is a paragraph or list item of a page, as one line.
type paragraph struct {
	line int // of its beginning
	text string
}

// paragraphs returns the prose of a page: without headings, tables, code blocks and HTML comments.
func paragraphs(page string) (all []paragraph) {
	open, fenced, code, blank := false, false, false, true
	number := 0
	for line := range strings.Lines(page) {
		number++
		text := strings.TrimSpace(line)
		item := listItem.MatchString(line)
		wasBlank := blank
		blank = text == ""
		switch {
		case strings.HasPrefix(text, "```"):
			fenced, open = !fenced, false
		case fenced:
		case blank:
			open = false
		case strings.HasPrefix(line, "    ") && !item && (code || wasBlank):
			code, open = true, false
		case strings.HasPrefix(text, "|"), strings.HasPrefix(text, "#"), strings.HasPrefix(text, "<"):
			open, code, blank = false, false, true // code may follow at once
		case !open || item:
			all = append(all, paragraph{number, listItem.ReplaceAllString(line, "")})
			open, code = true, false
		default:
			all[len(all)-1].text += " " + text
		}
	}
	return all
}

// words counts what has a letter or digit.
func words(sentence string) (n int) {
	for _, word := range strings.Fields(sentence) {
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}
