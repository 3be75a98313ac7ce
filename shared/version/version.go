// Package version says which build a program is.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
)

// Unknown is the version of a build that nobody stamped: by 'go run', or without the repository.
const Unknown = "unknown"

// stamp is the version that the build was given: go build -ldflags "-X ao/shared/version.stamp=v1.2.3".
var stamp string

// Of is this program's version: the one its build was given, the module's, or the commit that it was built of, with + where files
// were changed since.
var Of = sync.OnceValue(func() string {
	if stamp != "" {
		return stamp
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Unknown
	}
	return of(info)
})

// Line is what a program answers to --version.
func Line(program string) string {
	return fmt.Sprintf("%s %s (%s, %s/%s)\n", program, Of(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func of(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" && !strings.HasPrefix(v, "v0.0.0-") {
		return v
	}
	commit, changed := "", ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value[:min(len(s.Value), 12)]
		case "vcs.modified":
			if s.Value == "true" {
				changed = "+"
			}
		}
	}
	if commit == "" {
		return Unknown
	}
	return commit + changed
}
