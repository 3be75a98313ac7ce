// Package version reports which build a program is.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
)

// Unknown is the version of an unstamped build: by 'go run', or without the repository.
const Unknown = "unknown"

// stamp and commit are set at build time if Go cannot see the repository: go build -ldflags "-X
// ao/shared/version.stamp=v1.2.3 -X ao/shared/version.commit=0123abcd…".
var stamp, commit string

// Current is this program's version: the stamp, the module's version, or the commit, with + if files were modified.
var Current = sync.OnceValue(func() string {
	info, _ := debug.ReadBuildInfo()
	return of(info, stamp, commit)
})

// Revision is the full commit id of the build.
var Revision = sync.OnceValue(func() string {
	info, _ := debug.ReadBuildInfo()
	return cmp.Or(commit, vcs(info, "vcs.revision"), Unknown)
})

// Line returns what a program prints for --version.
func Line(program string) string {
	return fmt.Sprintf("%s %s (%s, %s/%s)\n", program, Current(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// shortCommit is how many characters of a commit id are shown.
const shortCommit = 12

func of(info *debug.BuildInfo, stamp, commit string) string {
	switch {
	case stamp != "":
		return stamp
	case commit != "":
		return commit[:min(len(commit), shortCommit)]
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
	commit = commit[:min(len(commit), shortCommit)]
	if vcs(info, "vcs.modified") == "true" {
		commit += "+"
	}
	return commit
}

// vcs returns a fact that Go noted about the repository; empty: it did not see one.
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
