package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"ao/shared/fault"
	"ao/shared/strictjson"
)

// maxFile is the largest agent file, in bytes.
const maxFile = 1 << 20

// File is a definition with its path.
type File struct {
	Blueprint
	Path string
}

// BrokenFile is a definition that cannot be used, and the reason. Its file may have no name that could be read: then
// that is the path's.
type BrokenFile struct {
	Name   string `json:"name"`
	Path   string `json:"path"`   // empty: a definition that came over the API or from a runner needs a schema
	Status string `json:"status"` // always broken
	Reason string `json:"error"`

	RunnerID string `json:"runner_id,omitempty"` // of a runner's agent, or in its folder: the runner
}

// UnusedFile is a file whose copy was edited: changes of it have no effect.
type UnusedFile struct {
	Path    string `json:"path"`
	Changed bool   `json:"changed"` // since it was copied
}

// Load reads every agent of a folder: <name>/agent.json, with an optional agent.system-prompt.md, or
// <name>.json. A bad file is reported by name and does not affect the others. Of two files with one name the
// first by path is kept. kind is the type of files without one. fits, if given, may refuse a file, which then
// reserves no name. The error is about the folder itself.
func Load(dir, kind string, fits func(File) error) (good []File, broken []BrokenFile, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("agents folder: %w", err)
	}
	seen := map[string]string{}
	for _, e := range entries {
		path, name := agentPath(dir, e)
		if path == "" {
			continue
		}
		f := File{Path: path}
		files, err := ReadFiles(dir, path)
		if err == nil {
			f.Blueprint, err = files.Blueprint(kind)
		}
		if err == nil && fits != nil {
			err = fits(f)
		}
		if err == nil && seen[f.Name] != "" {
			err = fmt.Errorf("the name %q is taken by %s; rename one of them", f.Name, seen[f.Name])
		}
		if err != nil {
			broken = append(broken, BrokenFile{Name: name, Path: path, Status: Broken, Reason: reason(err)})
			continue
		}
		seen[f.Name] = path
		good = append(good, f)
	}
	slices.SortFunc(good, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return good, broken, nil
}

// Paths returns the files of definitions in a folder, readable or not.
func Paths(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("agents folder: %w", err)
	}
	var all []string
	for _, e := range entries {
		if path, _ := agentPath(dir, e); path != "" {
			all = append(all, path)
		}
	}
	return all, nil
}

// Stamp returns a text that changes when the file does; empty: there is none. The inode changes when another file is
// renamed over it.
func Stamp(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	var inode uint64
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = s.Ino
	}
	return fmt.Sprint(info.ModTime().UnixNano(), info.Mode(), inode, info.Size())
}

// reason returns what is wrong, with the details of a schema's errors.
func reason(err error) string {
	if f, ok := errors.AsType[*fault.Fault](err); ok {
		return f.Reason()
	}
	return fault.Describe(err)
}

func agentPath(dir string, e fs.DirEntry) (path, name string) {
	full := filepath.Join(dir, e.Name())
	if i, err := os.Stat(full); err == nil && i.IsDir() {
		inside := filepath.Join(full, "agent.json")
		if _, err := os.Lstat(inside); err != nil {
			return "", ""
		}
		return inside, e.Name()
	}
	if name, ok := strings.CutSuffix(e.Name(), ".json"); ok {
		return full, name
	}
	return "", ""
}

// Files is the content of a definition's files.
type Files struct {
	Path   string // of the JSON
	JSON   []byte
	Prompt []byte // of the system prompt's file; nil: none
}

// PromptPath is where a definition's system prompt may have its own file; empty: nowhere.
func PromptPath(path string) string {
	if filepath.Base(path) != "agent.json" {
		return ""
	}
	return filepath.Join(filepath.Dir(path), "agent.system-prompt.md")
}

func readText(dir, path string) ([]byte, error) {
	raw, _, err := ReadFile(dir, path, maxFile)
	return strictjson.TrimBOM(raw), err
}

// ReadFiles reads the files of a definition in a folder of agents. Each is a regular file of at most 1 MiB.
func ReadFiles(dir, path string) (f Files, err error) {
	f.Path = path
	f.JSON, err = readText(dir, path)
	if err != nil {
		return f, err
	}
	at := PromptPath(path)
	if at == "" {
		return f, nil
	}
	f.Prompt, err = readText(dir, at)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	return f, err
}

// Blueprint reads and checks the definition. kind is the type if it has none.
func (f Files) Blueprint(kind string) (Blueprint, error) {
	if max(len(f.JSON), len(f.Prompt)) > maxFile {
		return Blueprint{}, fault.Newf(fault.Invalid, "a file of an agent must have at most %d bytes", maxFile)
	}
	b, err := Read(f.JSON, kind)
	switch {
	case err != nil:
		return Blueprint{}, err
	case f.Prompt == nil:
		return b, nil
	case b.SystemPrompt != "":
		return Blueprint{}, errors.New("system_prompt is in agent.json and in agent.system-prompt.md; keep one")
	}
	b.SystemPrompt = string(f.Prompt)
	return b, b.Check()
}
