package profile

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"ao/shared/agent"
)

// Folder is a folder of procedural agents that is read again when it changes. It is not safe for concurrent use.
type Folder struct {
	Dir string

	stamp   string           // of the definitions' files, when they were read last
	files   map[string]Agent // the last good definition of each file, by path
	missing map[string]bool  // files that were not there at the last look
	Broken  []agent.BrokenFile
}

// Agents returns the definitions to run, by name: the last good one of each file.
func (f *Folder) Agents() []Agent {
	all := slices.Collect(maps.Values(f.files))
	slices.SortFunc(all, func(a, b Agent) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Look reads the folder if it changed, or if something in it could not be read before. A file that cannot be read
// leaves its last good definition in place. A file must be missing twice in a row before its agent goes: a program
// may be replacing it. The error is about the folder itself, and changes nothing.
func (f *Folder) Look() error {
	stamp, err := f.stamps()
	if err != nil {
		return err
	}
	if f.files != nil && stamp == f.stamp && len(f.Broken)+len(f.missing) == 0 {
		return nil
	}
	good, broken, err := Agents(f.Dir)
	if err != nil {
		return err
	}
	files, names := map[string]Agent{}, map[string]bool{}
	for _, a := range good {
		files[a.Path], names[a.Name] = a, true
	}
	missing := map[string]bool{}
	for path, last := range f.files {
		at := slices.IndexFunc(broken, func(b agent.BrokenFile) bool { return b.Path == path })
		_, there := files[path]
		switch {
		case there || names[last.Name] || at < 0 && f.missing[path]:
			continue
		case at < 0:
			missing[path] = true
		default:
			broken[at].Reason += fmt.Sprintf(" (agent %q keeps its last good definition)", last.Name)
		}
		files[path] = last
	}
	f.stamp, f.files, f.missing, f.Broken = stamp, files, missing, broken
	return nil
}

// stamps returns a text that changes when a definition's file does.
func (f *Folder) stamps() (string, error) {
	dir, err := filepath.Abs(f.Dir)
	if err != nil {
		return "", err
	}
	paths, err := agent.Paths(dir)
	if err != nil {
		return "", err
	}
	if len(paths) > maxFiles {
		return "", errors.New("the folder has more than 10000 agents")
	}
	var b strings.Builder
	for _, path := range paths {
		b.WriteString(path + agent.Stamp(path) + agent.Stamp(agent.PromptPath(path)) + "\n")
	}
	return b.String(), nil
}

// maxFiles bounds what a look costs.
const maxFiles = 10_000
