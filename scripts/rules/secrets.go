package rules

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

var (
	// exampleFiles is a file of secrets that a command writes: by its output, or as a copy.
	exampleFiles = regexp.MustCompile(`(?:>>?\s*|\btee (?:-a )?|\b(?:install|cp|mv) [^|;&)]*\s|--?o(?:ut)? ?)["']?([^\s"'|;&)>]*(?:\.nk|\.creds|\.key|\.token|_key|_token|[./_-]secret|\.backup)s?)["']?(?:[\s|;&)` + "`" + `]|$)`)
	// protectedModes is a command that nobody else can read the file of.
	protectedModes = regexp.MustCompile(`umask 0?77\b|install [^|;&]*-m ?0?[46]00\b`)
)

// documentedSecrets looks through what people are told to type, in documents, scripts and texts of help: a file of secrets that a command makes is
// closed from its first moment, and lies outside the repository, from where it would be copied into images and commits.
func documentedSecrets(h *House) []string {
	var broken []string
	for _, f := range h.Files {
		script := f.IsScript() || path.Base(f.Path) == "Dockerfile"
		if f.IsTest() || f.Path == "scripts/rules/secrets.go" || !script && path.Ext(f.Path) != ".md" && path.Ext(f.Path) != ".yml" && path.Ext(f.Path) != ".go" {
			continue
		}
		number := 0
		for line := range strings.Lines(f.Text) {
			number++
			for _, m := range exampleFiles.FindAllStringSubmatch(strings.TrimRight(line, "\n"), -1) {
				if !protectedModes.MatchString(line) {
					broken = append(broken, fmt.Sprintf("%s:%d: %s is open to every user while it is written: (umask 077; …) or install -m 0400", f.Path, number, m[1]))
				}
				if !strings.HasPrefix(m[1], "/") && !strings.HasPrefix(m[1], "~/") && !strings.HasPrefix(m[1], "$") {
					broken = append(broken, fmt.Sprintf("%s:%d: %s lies in the repository; use a folder such as ~/.config/ao", f.Path, number, m[1]))
				}
			}
		}
	}
	return broken
}
