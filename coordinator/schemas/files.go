package schemas

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/schema"
	"ao/shared/strictjson"
)

// A file NAME.json in the folder is the schema of that name. It wins over one of the API. Files are read whenever they
// are named, so an edit counts at once.

// maxFile is the largest file of a schema, in bytes.
const maxFile = 1 << 20

// fileOf returns the file that defines a schema. Where the folder cannot be read, it may: nobody knows.
func (st *Store) fileOf(name string) (path string, ok bool) {
	if st.Dir == "" {
		return "", false
	}
	path = filepath.Join(st.Dir, name+".json")
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, true
	}
	_, err := os.Stat(st.Dir)
	return path, err != nil
}

// checkOfAPI refuses to change the schema of a file. Where the folder cannot be read, nobody knows whose it is.
func (st *Store) checkOfAPI(name, instead string) error {
	if st.Dir == "" {
		return nil
	}
	if _, err := os.Stat(st.Dir); err != nil {
		return fault.New(fault.Unavailable, "", "AO_SCHEMAS_DIR cannot be read: "+fault.Describe(err))
	}
	if _, ok := st.fileOf(name); ok {
		return fault.Newf(fault.Conflict, "Schema %q is defined by a file in AO_SCHEMAS_DIR: %s", name, instead).
			With("output_schema_name", name)
	}
	return nil
}

// read returns the schema of a file.
func (st *Store) read(name, path string) (Schema, error) {
	if _, err := os.Lstat(path); err != nil { // it was there, unless the folder cannot be read: see fileOf
		return Schema{}, fault.Newf(fault.Unavailable, "Schema %q cannot be looked up, AO_SCHEMAS_DIR cannot be read: "+
			"%s", name, fault.Describe(err)).With("output_schema_name", name)
	}
	s, err := st.parse(name, path)
	if err != nil {
		return s, fault.Newf(fault.Unavailable, "Schema %q cannot be used, its file in AO_SCHEMAS_DIR is broken: %s; "+
			"fix the file", name, err).With("output_schema_name", name)
	}
	return s, nil
}

func (st *Store) parse(name, path string) (s Schema, err error) {
	raw, _, err := agent.ReadFile(st.Dir, path, maxFile)
	if err != nil {
		return s, fault.New(fault.Unavailable, "", fault.Describe(err))
	}
	raw = strictjson.TrimBOM(raw)
	if _, err := schema.NamedRefs(raw); err != nil {
		return s, err
	}
	s = Schema{Name: name, Schema: raw, path: path}
	if info, err := os.Stat(path); err == nil {
		at := info.ModTime().UTC().Truncate(time.Second)
		s.CreatedAt, s.ModifiedAt = &at, &at
	}
	_ = strictjson.Scan(raw, func(key, value []byte) { // true and false describe nothing
		if string(key) == "description" {
			s.Description = strictjson.String(value)
		}
	})
	return s, nil
}

// files returns the schemas of all files, and the files that cannot be used.
func (st *Store) files(ctx context.Context) (good []Schema, broken []agent.BrokenFile) {
	if st.Dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(st.Dir)
	if err != nil {
		return nil, []agent.BrokenFile{{Name: filepath.Base(st.Dir), Path: st.Dir, Status: agent.Broken,
			Reason: fault.Describe(err)}}
	}
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		if !strings.EqualFold(ext, ".json") {
			continue
		}
		name, path := strings.TrimSuffix(e.Name(), ext), filepath.Join(st.Dir, e.Name())
		s, err := st.parse(name, path)
		if bad := agent.CheckName("name", name); bad != nil {
			err = bad
		} else if ext != ".json" {
			err = errors.New("its name must end in .json, in lower case")
		} else if err == nil {
			err = st.checkRefs(ctx, s)
		}
		if err != nil {
			broken = append(broken, agent.BrokenFile{Name: name, Path: path, Status: agent.Broken, Reason: err.Error()})
			continue
		}
		good = append(good, s)
	}
	return good, broken
}

// checkRefs returns what is wrong with the schemas that a schema refers to, as far as it can be known now.
func (st *Store) checkRefs(ctx context.Context, s Schema) error {
	_, err := st.Embed(ctx, s.Schema)
	if wrong, ok := errors.AsType[*schema.Error](err); ok {
		return wrong
	}
	return nil
}

// BrokenFiles lists the files that cannot be used, and why.
func (st *Store) BrokenFiles(ctx context.Context) []agent.BrokenFile {
	_, broken := st.files(ctx)
	return broken
}
