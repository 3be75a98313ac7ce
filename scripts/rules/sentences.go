package rules

import (
	"go/ast"
	"go/doc/comment"
	"path"
	"regexp"
	"strings"
	"unicode"
)

// The longest sentence of a page, in words, and of a comment in Go. Authors of pages aim at 25; the rest is room for
// names.
const (
	maxWords        = 30
	maxCommentWords = 25
)

var (
	codeSpan    = regexp.MustCompile("``.*?``|`[^`]*`")
	linkTarget  = regexp.MustCompile(`\]\([^)]*\)`)
	sentenceEnd = regexp.MustCompile(`[.!?]["')*\]]*\s+`)
	listItem    = regexp.MustCompile(`^\s*(?:[-*]|\d+\.) `)
)

// shortSentences limits the sentences of pages, except in code and tables. Inline code counts as one word.
func shortSentences(h *House, say reporter) {
	for _, f := range h.Files {
		if path.Ext(f.Path) != ".md" {
			continue
		}
		for _, p := range paragraphs(f) {
			text := linkTarget.ReplaceAllString(codeSpan.ReplaceAllString(p.text, "X"), "")
			longSentences(f.Path, p.line, text, maxWords, say)
		}
	}
}

// shortComments limits the sentences of comments in Go, except in their code.
func shortComments(h *House, say reporter) {
	var parser comment.Parser
	for _, f := range h.Files {
		if f.Go == nil || ast.IsGenerated(f.Go) {
			continue
		}
		for _, group := range f.Go.Comments {
			line := f.fset.Position(group.Pos()).Line
			for _, text := range prose(parser.Parse(group.Text()).Content) {
				longSentences(f.Path, line, text, maxCommentWords, say)
			}
		}
	}
}

// prose returns the paragraphs of a comment, each list item as one.
func prose(blocks []comment.Block) (all []string) {
	for _, block := range blocks {
		switch b := block.(type) {
		case *comment.Paragraph:
			text := (&comment.Printer{}).Comment(&comment.Doc{Content: []comment.Block{b}})
			all = append(all, strings.ReplaceAll(string(text), "\n", " "))
		case *comment.List:
			for _, item := range b.Items {
				all = append(all, prose(item.Content)...)
			}
		}
	}
	return all
}

// longSentences reports the sentences of a text that have more words than most.
func longSentences(file string, line int, text string, most int, say reporter) {
	for _, sentence := range sentenceEnd.Split(text, -1) {
		if n := words(sentence); n > most {
			say("%s:%d: a sentence of %d words, the limit is %d: %.60s", file, line, n, most, sentence)
		}
	}
}

// paragraph is a paragraph or list item of a page, as one line.
type paragraph struct {
	line int // of its beginning
	text string
}

// paragraphs returns the prose of a page: without headings, tables, code blocks and HTML comments.
func paragraphs(page File) (all []paragraph) {
	open, fenced, code, blank := false, false, false, true
	for number, line := range page.lines {
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
