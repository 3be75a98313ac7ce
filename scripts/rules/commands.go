package rules

import (
	"regexp"
	"slices"
	"strings"
)

// Command is a line for a shell that readers of a page can copy. Lines that '\' continues are one.
type Command struct {
	Section string // the page's name and the heading: README.md ## 60 seconds
	Line    int    // where it begins
	Text    string // without the comment after it
}

// Commands returns the commands of a page in their order. name is the page's file, or that of a module of the
// dashboard.
func Commands(name, page string) (all []Command) {
	if strings.HasSuffix(name, ".js") {
		return shownCommands(name, page)
	}
	for _, b := range codeBlocks(page) {
		b.section = name + " " + b.section
		if b.isShell() {
			all = append(all, b.commands()...)
		}
	}
	return all
}

// shown matches a line that the dashboard shows with a button to copy it. Others are made from what is on the page.
var shown = regexp.MustCompile(`CodeLine\} text="([^"]+)"`)

func shownCommands(name, module string) (all []Command) {
	for i, line := range strings.Split(module, "\n") {
		for _, m := range shown.FindAllStringSubmatch(line, -1) {
			all = append(all, Command{name + " CodeLine", i + 1, m[1]})
		}
	}
	return all
}

// codeBlock is an indented block of a page, or a fenced one.
type codeBlock struct {
	line    int // of its first line
	section string
	fence   string // with the language; empty: it is indented
	lines   []string
}

// codeBlocks returns the blocks of code of a page.
func codeBlocks(page string) (all []codeBlock) {
	section, fence, blank, open := "", "", true, false
	for i, line := range strings.Split(page, "\n") {
		text := strings.TrimSpace(line)
		switch code := strings.HasPrefix(line, "    ") && (blank || open); {
		case strings.HasPrefix(text, "```") && fence == "":
			fence = text
			all = append(all, codeBlock{line: i + 2, section: section, fence: fence})
		case strings.HasPrefix(text, "```"):
			fence = ""
		case fence != "":
			all[len(all)-1].lines = append(all[len(all)-1].lines, line)
		case code && !open:
			open = true
			all = append(all, codeBlock{line: i + 1, section: section, lines: []string{line}})
		case code:
			all[len(all)-1].lines = append(all[len(all)-1].lines, line)
		default:
			open = false
			if strings.HasPrefix(line, "#") {
				section = line
			}
		}
		blank = text == "" || strings.HasPrefix(line, "#")
	}
	return all
}

var (
	shellFence = regexp.MustCompile("^```(sh|bash|console)$")
	// noShell matches one of the first lines of something else: JSON, a program, output, or a picture.
	noShell  = regexp.MustCompile(`^\s*(?:[{"]|#!|shared/ |damage of )|[│─►└┌]`)
	trailing = regexp.MustCompile(`(?:^|\s)\s*# .*$`)
)

func (b codeBlock) isShell() bool {
	shell := b.fence == "" || shellFence.MatchString(b.fence)
	return shell && !slices.ContainsFunc(b.lines[:min(2, len(b.lines))], noShell.MatchString)
}

func (b codeBlock) commands() (all []Command) {
	continues := false
	for i, line := range b.lines {
		text := strings.TrimSpace(trailing.ReplaceAllString(line, ""))
		begun, more := strings.CutSuffix(text, `\`)
		switch {
		case continues:
			all[len(all)-1].Text += " " + strings.TrimSpace(begun)
		case text != "":
			all = append(all, Command{b.section, b.line + i, strings.TrimSpace(begun)})
		}
		continues = more
	}
	return all
}
