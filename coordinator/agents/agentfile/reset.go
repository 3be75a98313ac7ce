package agentfile

import (
	"context"
	"path/filepath"
	"strings"

	"ao/shared/agent"
	"ao/shared/fault"
)

// Unused returns the files of the seed whose copy was edited, by the path of their copy.
func (s Seed) Unused() (map[string]agent.UnusedFile, error) {
	shipped, err := readAgents(s.From)
	if err != nil {
		return nil, err
	}
	copies, err := readAgents(s.To)
	if err != nil {
		return nil, err
	}
	n, err := s.read()
	unused := map[string]agent.UnusedFile{}
	for top, source := range shipped {
		copied := copies[top].hash()
		if hash := source.hash(); source.defined(top) && copied != "" && copied != hash {
			unused[definitionAt(s.To, top)] = agent.UnusedFile{Path: definitionAt(s.From, top),
				Changed: hash != n.Copied[top]}
		}
	}
	return unused, err
}

// definitionAt returns the path of the definition of an agent in a folder of agents.
func definitionAt(dir, top string) string {
	if strings.HasSuffix(top, ".json") {
		return filepath.Join(dir, top)
	}
	return filepath.Join(dir, top, "agent.json")
}

// Reset replaces the copy at path with the files of the seed.
func (s Seed) Reset(ctx context.Context, path string, check Check) error {
	release, err := lock(ctx, s.To)
	if err != nil {
		return explain(err, path)
	}
	defer release()
	at, err := filepath.Rel(s.To, path)
	if err != nil {
		return err
	}
	top, _, inFolder := strings.Cut(at, string(filepath.Separator))
	for range tries {
		if err := Locked(s.To, path); err != nil {
			return err
		}
		old, err := readAgent(s.To, top, inFolder)
		if err != nil {
			return explain(err, path)
		}
		before, err := blueprint(s.To, path)
		if err != nil {
			return err
		}
		if err := check.Before(before); err != nil {
			return err
		}
		source, err := s.source(top, inFolder, check)
		if err != nil {
			return err
		}
		if now, err := readAgent(s.To, top, inFolder); err != nil || now.hash() != old.hash() {
			continue // another program has changed it meanwhile
		}
		n, err := s.read()
		if err == nil {
			err = s.replace(&n, top, source, old)
		}
		if err == nil {
			err = s.write(n)
		}
		return explain(err, path)
	}
	return errBusy(path)
}

// source returns the files of an agent of the seed, if the check accepts their definition.
func (s Seed) source(top string, inFolder bool, check Check) (agentFiles, error) {
	path := definitionAt(s.From, top)
	source, err := readAgent(s.From, top, inFolder)
	if err != nil {
		return nil, explain(err, path)
	}
	after, err := blueprint(s.From, path)
	if err == nil {
		err = check.After(after)
	}
	if k := fault.KindOf(err); err != nil && (k == fault.Invalid || k == fault.NotFound) {
		err = fault.Newf(fault.Conflict, "%s cannot be taken: %s; fix the file", path, fault.Of(err).Reason()).
			With("path", path)
	}
	return source, err
}

// blueprint reads the definition at path in a folder of agents.
func blueprint(dir, path string) (agent.Blueprint, error) {
	files, err := agent.ReadFiles(dir, path)
	if err != nil {
		return agent.Blueprint{}, explain(err, path)
	}
	return definition(files)
}
