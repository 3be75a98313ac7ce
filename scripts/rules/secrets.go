package rules

import (
	"path"
	"regexp"
	"strings"
)

var (
	// exampleFiles matches a secret file written by a command, by redirection or as a copy.
	exampleFiles = regexp.MustCompile(`(?:>>?\s*|\btee (?:-a )?|\b(?:install|cp|mv) [^|;&)]*\s|--?o(?:ut)? ` +
		`?)["']?([^\s"'|;&)>]*(?:\.nk|\.creds|\.key|\.token|_key|_token|[./_-]secret|\.backup)s?)["']?(?:[\s|;&)` +
		"`" + `]|$)`)
	// protectedModes matches a command whose files only their owner can read.
	// openModes matches a file or folder that others than its owner may read or enter.
	openModes = regexp.MustCompile(`\b(?:MkdirAll|Mkdir|WriteFile|OpenFile|Chmod)\(` +
		`.*\b0o?[0-7]?[0-7](?:[1-7][0-7]|0[1-7])\)`)
	protectedModes = regexp.MustCompile(`umask 0?77\b|install [^|;&]*-m ?0?[46]00\b`)
)

// documentedSecrets checks commands in documents, scripts and help. A secret file must be private from its creation. It
// must be outside the repository, from where it could get into images and commits.
func documentedSecrets(h *House, say reporter) {
	for _, f := range h.Files {
		script := f.IsScript() || path.Base(f.Path) == "Dockerfile"
		if f.IsTest() || f.Path == "scripts/rules/secrets.go" || !script && path.Ext(f.Path) != ".md" &&
			path.Ext(f.Path) != ".yml" && path.Ext(f.Path) != ".go" {
			continue
		}
		for number, line := range f.lines {
			for _, m := range exampleFiles.FindAllStringSubmatch(line, -1) {
				if !protectedModes.MatchString(line) {
					say("%s:%d: %s is open to every user while it is written: (umask 077; …) "+
						"or install -m 0400", f.Path, number, m[1])
				}
				if !strings.HasPrefix(m[1], "/") && !strings.HasPrefix(m[1], "~/") && !strings.HasPrefix(m[1], "$") {
					say("%s:%d: %s lies in the repository; use a folder such as ~/.config/ao", f.Path, number, m[1])
				}
			}
		}
	}
}

// openOnPurpose are files whose modes are not private, and why.
var openOnPurpose = map[string]string{
	"coordinator/cmd/ao/command/newagent.go": "it writes sources into a project, as an editor would",
	"worker/process/private_linux.go":        "a program in memory, which nobody may read",
}

// privateFiles checks the modes of what the programs write: 0700 and 0600.
func privateFiles(h *House, say reporter) {
	for _, f := range h.Files {
		product := !strings.HasPrefix(f.Path, "scripts/") || strings.HasPrefix(f.Path, "scripts/allinone/")
		if f.IsTest() || !product || path.Ext(f.Path) != ".go" || openOnPurpose[f.Path] != "" {
			continue
		}
		for number, line := range f.lines {
			if openModes.MatchString(line) {
				say("%s:%d: others than the owner may read this: use 0o700 and 0o600", f.Path, number)
			}
		}
	}
}
