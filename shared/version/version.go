// Package version says which build a program is.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
)

// Unknown is the version of a build that nobody stamped: by 'go run', or without the repository.
const Unknown = "unknown"

// stamp and commit are what the build was given, where Go cannot see the repository:
// go build -ldflags "-X ao/shared/version.stamp=v1.2.3 -X ao/shared/version.commit=0123abcd…".
var stamp, commit string

// Current is this program's version: the one its build was given, the module's, or the commit that it was built of, with + where files
// were changed since.
var Current = sync.OnceValue(func() string {
	info, _ := debug.ReadBuildInfo()
	return of(info, stamp, commit)
})

// Revision is the whole commit that this program was built of.
var Revision = sync.OnceValue(func() string {
	info, _ := debug.ReadBuildInfo()
	return cmp.Or(commit, vcs(info, "vcs.revision"), Unknown)
})

// Line is what a program answers to --version.
func Line(program string) string {
	return fmt.Sprintf("%s %s (%s, %s/%s)\n", program, Current(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// short is how much of a commit's name is shown.
const short = 12

func of(info *debug.BuildInfo, stamp, commit string) string {
	switch {
	case stamp != "":
		return stamp
	case commit != "":
		return commit[:min(len(commit), short)]
	case info == nil:
		return Unknown
	}
	if v := info.Main.Version; v != "" && v != "(devel)" && !strings.HasPrefix(v, "v0.0.0-") {
		return v
	}
	commit = vcs(info, "vcs.revision")
	if commit == "" {
		return Unknown
	}
	commit = commit[:min(len(commit), short)]
	if vcs(info, "vcs.modified") == "true" {
		commit += "+"
	}
	return commit
}

// vcs is what Go has noted of the repository; empty: it did not see one.
func vcs(info *debug.BuildInfo, key string) string {
	if info == nil {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
