package agentfile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ao/shared/agent"
	"ao/shared/config"
	"ao/shared/strictjson"
)

// Seed keeps an editable copy of a folder of agents. New and changed agents of the folder are copied, unless their copy
// was edited or deleted since the last time.
type Seed struct {
	From, To string
}

// seedStateFile is below the copy and has the seedState.
const seedStateFile = ".ao/seed"

// seedState has the hash of each agent as it was copied last, and the agent whose copy is being written.
type seedState struct {
	Copied  map[string]string `json:"copied"`
	Writing string            `json:"writing,omitempty"`
}

// Sync updates the copy. It returns the agents that it changed, and those whose copy differs because it was edited. An
// agent whose definition is no file is left as it is, and named in the error.
func (s Seed) Sync(ctx context.Context) (changed, kept []string, err error) {
	if err := os.MkdirAll(filepath.Dir(s.To), 0o700); err != nil { // the data folder, which has secrets
		return nil, nil, err
	}
	for _, dir := range []string{s.To, filepath.Join(s.To, ".ao")} { // an edited agent may have secrets
		if err := config.PrivateDir(dir); err != nil {
			return nil, nil, err
		}
	}
	release, err := lock(ctx, s.To)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	shipped, err := readAgents(s.From)
	if err != nil {
		return nil, nil, err
	}
	copies, err := readAgents(s.To)
	if err != nil {
		return nil, nil, err
	}
	n, err := s.read()
	if err != nil {
		return nil, nil, err
	}
	var noFiles []error
	names := slices.AppendSeq(slices.Collect(maps.Keys(n.Copied)), maps.Keys(shipped))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if shipped[name] != nil && !shipped[name].defined(name) {
			noFiles = append(noFiles, fmt.Errorf("the definition of agent %s is not a regular file", name))
			continue
		}
		done, err := s.syncAgent(&n, name, shipped[name], copies[name])
		if err != nil {
			return changed, kept, fmt.Errorf("agent %s: %w", name, err)
		}
		if done {
			changed = append(changed, name)
		} else if source, copied := shipped[name].hash(), copies[name].hash(); source != "" && source != copied {
			kept = append(kept, name)
		}
	}
	return changed, kept, errors.Join(append(noFiles, s.write(n))...)
}

// syncAgent updates the copy of one agent; false: it is left as it is.
func (s Seed) syncAgent(n *seedState, name string, source, copy agentFiles) (bool, error) {
	last, copied := n.Copied[name]
	copyHash, sourceHash := copy.hash(), source.hash()
	if copyHash == sourceHash {
		n.note(name, sourceHash)
		return false, nil
	}
	if untouched := copied && copyHash == last || !copied && copy == nil || n.Writing == name; !untouched {
		return false, nil
	}
	return true, s.replace(n, name, source, copy)
}

// replace replaces the copy of one agent. One that was interrupted is repeated by the next Sync.
func (s Seed) replace(n *seedState, name string, source, copy agentFiles) error {
	n.Writing = name
	if err := s.write(*n); err != nil {
		return err
	}
	if err := source.replace(s.To, copy); err != nil {
		return err
	}
	n.Writing = ""
	n.note(name, source.hash())
	return nil
}

// note notes the hash of an agent's copy; empty: it has none any more.
func (n *seedState) note(name, hash string) {
	n.Copied[name] = hash
	if hash == "" {
		delete(n.Copied, name)
	}
}

func (s Seed) read() (seedState, error) {
	n := seedState{Copied: map[string]string{}}
	raw, _, err := agent.ReadFile(s.To, filepath.Join(s.To, seedStateFile), maxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &n)
	}
	if n.Copied == nil {
		n.Copied = map[string]string{}
	}
	return n, err
}

func (s Seed) write(n seedState) error {
	raw, err := strictjson.Encode(n)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(s.To)
	if err != nil {
		return err
	}
	defer root.Close()
	return writeFile(root, seedStateFile, raw, 0o600)
}

// writeFile writes a temporary file below root and renames it.
func writeFile(root *os.Root, at string, text []byte, mode fs.FileMode) error {
	w := write{root: root, path: at, next: text}
	defer w.discard()
	err := w.stage()
	if err == nil {
		err = root.Chmod(w.temporary, mode)
	}
	if err == nil {
		err = w.commit()
	}
	return err
}

// agentFiles are the files of an agent by their path below the folder of agents; nil: there is no such agent.
type agentFiles map[string]file

type file struct {
	text []byte
	mode fs.FileMode
}

// defined reports whether the definition is among the files. It is not if it is a folder or a pipe.
func (u agentFiles) defined(top string) bool {
	_, alone := u[top]
	_, inFolder := u[filepath.Join(top, "agent.json")]
	return alone || inFolder
}

// hash identifies the contents; empty: there is no such agent.
func (u agentFiles) hash() string {
	if u == nil {
		return ""
	}
	h := sha256.New()
	for _, at := range slices.Sorted(maps.Keys(u)) {
		fmt.Fprintf(h, "%q %d %t\n", at, len(u[at].text), u[at].mode&0o100 != 0)
		h.Write(u[at].text)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// replace writes the files into a folder of agents and removes those of old that are no longer there.
func (u agentFiles) replace(dir string, old agentFiles) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, at := range slices.Sorted(maps.Keys(u)) {
		if err := root.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return err
		}
		if had, ok := old[at]; ok && bytes.Equal(had.text, u[at].text) {
			continue
		}
		if err := writeFile(root, at, u[at].text, 0o600|u[at].mode&0o100); err != nil {
			return err
		}
	}
	for at := range old {
		if _, ok := u[at]; ok {
			continue
		}
		if err := root.Remove(at); err != nil {
			return err
		}
		_ = root.Remove(filepath.Dir(at)) // fails where something else is in it
	}
	return nil
}

// Limits of what is copied, so that only a folder of agents is.
const (
	maxAgents = 1000
	maxFiles  = 100
	maxBytes  = 4 << 20 // of each agent
)

// readAgents reads the agents of a folder: <name>/agent.json with the files beside it, and <name>.json.
func readAgents(dir string) (map[string]agentFiles, error) {
	all, err := agent.Paths(dir)
	if err != nil {
		return nil, err
	}
	if len(all) > maxAgents {
		return nil, fmt.Errorf("%s has %d agents; at most %d are copied", dir, len(all), maxAgents)
	}
	agents := map[string]agentFiles{}
	for _, path := range all {
		at, err := filepath.Rel(dir, path)
		if err != nil {
			return nil, err
		}
		top, _, inFolder := strings.Cut(at, string(filepath.Separator))
		agents[top], err = readAgent(dir, top, inFolder)
		if err != nil {
			return nil, err
		}
	}
	return agents, nil
}

// readAgent reads the files of one agent.
func readAgent(dir, top string, inFolder bool) (agentFiles, error) {
	u, size := agentFiles{}, 0
	add := func(at string) error {
		full := filepath.Join(dir, at)
		if info, err := os.Stat(full); err != nil || !info.Mode().IsRegular() {
			return err
		}
		text, mode, err := agent.ReadFile(dir, full, maxBytes)
		if errors.Is(err, agent.ErrLinkOut) {
			return nil
		}
		if size += len(text); len(u) == maxFiles || size > maxBytes {
			return fmt.Errorf("%s has more than %d files or %d bytes, too much to copy", filepath.Join(dir, top),
				maxFiles, maxBytes)
		}
		u[at] = file{text, mode}
		return err
	}
	if !inFolder {
		return u, add(top)
	}
	entries, err := os.ReadDir(filepath.Join(dir, top))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") { // temporary files, of editors or ours
			continue
		}
		if err := add(filepath.Join(top, e.Name())); err != nil {
			return nil, err
		}
	}
	return u, nil
}
