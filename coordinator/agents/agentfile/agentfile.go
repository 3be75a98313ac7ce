// Package agentfile changes the files of agents: agent.json, and agent.system-prompt.md beside it. A change is written
// to a temporary file, synced and renamed, so that readers see the old text or the new one. Members that were not
// changed keep their bytes. A lock on the folder serializes coordinators that share it. Changes by other programs are
// found by comparing the text before it is replaced.
package agentfile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// Check refuses a change by the definition before or after it.
type Check struct {
	Before, After func(agent.Blueprint) error
}

// tries is how often a change is repeated because the file changed meanwhile.
const tries = 8

// Change sets members of the definition at path and returns the new definition; null removes a member. dir is the
// folder of agents that path is in.
func Change(ctx context.Context, dir, path string, members []strictjson.Member, check Check) (agent.Blueprint, error) {
	var after agent.Blueprint
	err := replace(ctx, dir, path, func(old agent.Files, before agent.Blueprint) (agent.Files, error) {
		if err := check.Before(before); err != nil {
			return old, err
		}
		next, err := applyChanges(old, members)
		if err != nil {
			return old, err
		}
		after, err = next.Blueprint(run.Autonomous)
		if err != nil {
			return old, err
		}
		return next, check.After(after)
	})
	return after, err
}

// Remove deletes the files of the definition at path, and their folder if it is then empty.
func Remove(ctx context.Context, dir, path string, before func(agent.Blueprint) error) error {
	return replace(ctx, dir, path, func(old agent.Files, b agent.Blueprint) (agent.Files, error) {
		return agent.Files{Path: path}, before(b)
	})
}

// replace replaces the files with what change returns. Files without JSON are deleted.
func replace(ctx context.Context, dir, path string, change func(agent.Files, agent.Blueprint) (agent.Files,
	error)) error {
	release, err := lock(ctx, dir)
	if err != nil {
		return explain(err, path)
	}
	defer release()
	for range tries {
		if err := Locked(dir, path); err != nil {
			return err
		}
		old, err := agent.ReadFiles(dir, path)
		if err != nil {
			return explain(err, path)
		}
		before, err := definition(old)
		if err != nil {
			return err
		}
		next, err := change(old, before)
		if err != nil {
			return err
		}
		done, err := swap(dir, old, next)
		if done || err != nil {
			return explain(err, path)
		}
	}
	return errBusy(path)
}

func errBusy(path string) error {
	return fault.Newf(fault.Conflict, "%s is being changed by others; try again", path).With("path", path)
}

// definition reads the definition in an agent's files.
func definition(f agent.Files) (agent.Blueprint, error) {
	b, err := f.Blueprint(run.Autonomous)
	if err != nil {
		err = fault.Newf(fault.Conflict, "%s is not a valid definition: %s; fix the file", f.Path,
			fault.Describe(err)).With("path", f.Path)
	}
	return b, err
}

// applyChanges returns the files with the members changed.
func applyChanges(old agent.Files, members []strictjson.Member) (agent.Files, error) {
	next, now := old, map[string]json.RawMessage{}
	current, err := strictjson.Members(old.JSON)
	if err != nil {
		return next, err
	}
	current, err = agent.CanonicalNames(current)
	if err != nil {
		return next, err
	}
	for _, m := range current {
		now[m.Key] = m.Value
	}
	var changes []strictjson.Change
	for _, m := range members {
		if m.Key == "system_prompt" && now[m.Key] == nil && agent.PromptPath(old.Path) != "" {
			next.Prompt, err = promptOf(old.Prompt, m.Value)
			if err != nil {
				return next, err
			}
			continue
		}
		c := strictjson.Change{Keys: agent.Names(m.Key), Value: m.Value}
		if string(m.Value) == "null" {
			c.Value = nil
		} else if agent.EqualJSON(now[m.Key], m.Value) {
			continue
		}
		changes = append(changes, c)
	}
	next.JSON, err = strictjson.Edit(old.JSON, changes)
	return next, err
}

// promptOf returns the text of the system prompt's file; nil: no file.
func promptOf(old []byte, value json.RawMessage) ([]byte, error) {
	if string(value) == "null" || string(value) == `""` && old == nil {
		return nil, nil
	}
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return old, fault.New(fault.Invalid, "", "system_prompt must be a string").With("field", "system_prompt")
	}
	return []byte(text), nil
}

// swap replaces the old texts with the new ones in a folder of agents. Not done: the files changed meanwhile, and
// nothing was replaced.
func swap(dir string, old, next agent.Files) (done bool, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false, err
	}
	defer root.Close()
	writes := []write{
		{path: agent.PromptPath(old.Path), old: old.Prompt, next: next.Prompt},
		{path: old.Path, old: old.JSON, next: next.JSON},
	}
	if next.JSON == nil { // without it there is no agent, so it is deleted first
		slices.Reverse(writes)
	}
	writes = slices.DeleteFunc(writes, func(w write) bool {
		return w.path == "" || bytes.Equal(w.old, w.next) && (w.old == nil) == (w.next == nil)
	})
	for i := range writes {
		w := &writes[i]
		w.root = root
		w.path, err = filepath.Rel(dir, w.path)
		if err != nil {
			return false, err
		}
		defer w.discard()
		if err := w.stage(); err != nil {
			return false, err
		}
	}
	if now, err := agent.ReadFiles(dir, old.Path); err != nil || !bytes.Equal(now.JSON, old.JSON) ||
		!bytes.Equal(now.Prompt, old.Prompt) {
		return false, err
	}
	if err := commit(writes); err != nil {
		return false, err
	}
	folder := filepath.Dir(old.Path)
	if next.JSON == nil && agent.PromptPath(old.Path) != "" {
		_ = os.Remove(folder) // fails where something else is in it
		folder = filepath.Dir(folder)
	}
	syncDir(folder)
	return true, nil
}

// explain turns an error of the file system into one for a person.
func explain(err error, path string) error {
	if _, ok := errors.AsType[*fault.Fault](err); ok || err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	reason, kind := "", fault.Conflict
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		reason, kind = "its disk is full; nothing was changed, make room and try again", fault.Unavailable
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		reason = "this coordinator may not write there"
	case errors.Is(err, fs.ErrNotExist):
		reason = "it no longer exists"
	case errors.Is(err, context.DeadlineExceeded):
		reason, kind = "another process has the folder locked; try again", fault.Unavailable
	default:
		reason, kind = "the file system returned an error (see the log); nothing was changed", fault.Unavailable
	}
	return fault.Wrap(kind, "", fmt.Sprintf("%s cannot be changed: %s", path, reason), err).With("path", path)
}

// Locked returns why a file cannot be changed; nil: nothing seems to prevent it.
func Locked(dir, path string) error {
	refuse := func(format string, args ...any) error {
		return fault.Newf(fault.Conflict, format, args...).With("path", path)
	}
	places := []string{path, agent.PromptPath(path)}
	if folder := filepath.Dir(path); folder != filepath.Clean(dir) {
		places = append([]string{folder}, places...)
	}
	for _, at := range places {
		info, err := os.Lstat(at)
		switch {
		case at == "" || at != path && errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return explain(err, path)
		case info.Mode()&fs.ModeSymlink != 0:
			return refuse("%s is a symbolic link; change its target", at)
		case !info.IsDir() && !info.Mode().IsRegular():
			return refuse("%s is not a regular file", at)
		case info.Mode().Perm()&0o200 == 0, syscall.Access(at, 2) != nil:
			return refuse("%s is read-only for this coordinator", at)
		}
	}
	if folder := filepath.Dir(path); syscall.Access(folder, 2) != nil {
		return refuse("%s is read-only for this coordinator", folder)
	}
	return nil
}

// tempPrefix returns how the names of path's temporary files begin.
func tempPrefix(path string) string {
	return "." + strings.TrimPrefix(filepath.Base(path), ".") + ".ao-"
}
