// Package agentfile changes the files of agents: agent.json, and agent.system-prompt.md beside it. A change is written
// aside, synced, and renamed over the file, so that a reader sees the old text or the new one. What was not changed
// keeps its bytes. A lock on the folder keeps coordinators that share it apart; a change by somebody else is found by
// comparing the text before it is replaced.
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

// Check refuses a change by what it starts from, or by what it leads to.
type Check struct {
	Before, After func(agent.Blueprint) error
}

// tries is how often a change is made anew because somebody else changed the file meanwhile.
const tries = 8

// Change replaces the members of the definition at path; null takes one away. dir is the folder of agents that path is
// in. It returns the definition that then stands.
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

// Remove deletes the files of the definition at path, and their folder where nothing else is in it.
func Remove(ctx context.Context, dir, path string, before func(agent.Blueprint) error) error {
	return replace(ctx, dir, path, func(old agent.Files, b agent.Blueprint) (agent.Files, error) {
		return agent.Files{Path: path}, before(b)
	})
}

// replace reads the files, and puts what change makes of them in their place. Files without JSON are deleted.
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
		old, err := agent.ReadFiles(path)
		if err != nil {
			return explain(err, path)
		}
		before, err := old.Blueprint(run.Autonomous)
		if err != nil {
			return fault.Newf(fault.Conflict, "%s cannot be read as it is now: %s; mend the file", path,
				fault.Describe(err)).With("path", path)
		}
		next, err := change(old, before)
		if err != nil {
			return err
		}
		done, err := swap(old, next)
		if done || err != nil {
			return explain(err, path)
		}
	}
	return fault.Newf(fault.Conflict, "%s is being changed by others; try again", path).With("path", path)
}

// applyChanges makes the new texts.
func applyChanges(old agent.Files, members []strictjson.Member) (agent.Files, error) {
	next, now := old, map[string]json.RawMessage{}
	current, err := strictjson.Members(old.JSON)
	if err != nil {
		return next, err
	}
	current, err = agent.Plain(current)
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
		} else if agent.Same(now[m.Key], m.Value) {
			continue
		}
		changes = append(changes, c)
	}
	next.JSON, err = strictjson.Edit(old.JSON, changes)
	return next, err
}

// promptOf is the text of the system prompt's file; nil: there is to be none.
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

// swap puts the new texts in place of the old ones; false: somebody else has changed them meanwhile, and nothing was
// done.
func swap(old, next agent.Files) (done bool, err error) {
	writes := []write{
		{path: agent.PromptPath(old.Path), old: old.Prompt, next: next.Prompt},
		{path: old.Path, old: old.JSON, next: next.JSON},
	}
	if next.JSON == nil { // without it there is no agent: it goes first
		slices.Reverse(writes)
	}
	writes = slices.DeleteFunc(writes, func(w write) bool {
		return w.path == "" || bytes.Equal(w.old, w.next) && (w.old == nil) == (w.next == nil)
	})
	for i := range writes {
		defer writes[i].discard()
		if err := writes[i].stage(); err != nil {
			return false, err
		}
	}
	if now, err := agent.ReadFiles(old.Path); err != nil || !bytes.Equal(now.JSON, old.JSON) ||
		!bytes.Equal(now.Prompt, old.Prompt) {
		return false, err
	}
	if err := commit(writes); err != nil {
		return false, err
	}
	folder := filepath.Dir(old.Path)
	if next.JSON == nil && agent.PromptPath(old.Path) != "" {
		_ = os.Remove(folder) // it stays where something else is in it
		folder = filepath.Dir(folder)
	}
	syncDir(folder)
	return true, nil
}

// explain tells a person what the system's error means.
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
		reason = "it is not there any more"
	case errors.Is(err, context.DeadlineExceeded):
		reason, kind = "another process has the folder locked; try again", fault.Unavailable
	default:
		reason, kind = "its file system answers with an error, which the log has; nothing was changed", fault.Unavailable
	}
	return fault.Wrap(kind, "", fmt.Sprintf("%s cannot be changed: %s", path, reason), err).With("path", path)
}

// Locked says why a file cannot be changed; nil: it can, as far as one sees without trying.
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
			return refuse("%s is a symbolic link; change what it leads to", at)
		case !info.IsDir() && !info.Mode().IsRegular():
			return refuse("%s is no regular file", at)
		case info.Mode().Perm()&0o200 == 0, syscall.Access(at, 2) != nil:
			return refuse("%s is read-only for this coordinator", at)
		}
	}
	if folder := filepath.Dir(path); syscall.Access(folder, 2) != nil {
		return refuse("%s is read-only for this coordinator", folder)
	}
	return nil
}

// tempPrefix is what the name of a file begins with that is written beside path.
func tempPrefix(path string) string {
	return "." + strings.TrimPrefix(filepath.Base(path), ".") + ".ao-"
}
