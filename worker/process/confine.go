package process

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"ao/shared/fault"
	"ao/shared/strictjson"
)

// most is the largest value of a limit: MiB of them still fit into an int64 of bytes.
const most = 1 << 40

// Check says what is wrong with the limits, by the field.
func (l Limits) Check() error {
	for _, v := range l.list() {
		if v.set < 0 || v.set > most {
			return invalid("limits."+v.name, "must be from 1 to %d", int64(most))
		}
	}
	switch {
	case l.OpenFiles > 0 && l.OpenFiles < 8:
		return invalid("limits.open_files", "must be at least 8: a program has three before it begins, and its loader needs some")
	case l.MemoryMB > 0 && l.AddressSpaceMB > 0 && l.AddressSpaceMB < l.MemoryMB:
		return invalid("limits.address_space_mb", "must be at least limits.memory_mb: memory has addresses")
	}
	return nil
}

// limit is one of them.
type limit struct {
	name string
	set  int
	unit string
}

func (l Limits) list() []limit {
	return []limit{
		{"cpu_seconds", l.CPUSeconds, " s of CPU time"}, {"memory_mb", l.MemoryMB, " MiB"}, {"address_space_mb", l.AddressSpaceMB, " MiB"},
		{"file_mb", l.FileMB, " MiB"}, {"open_files", l.OpenFiles, ""}, {"processes", l.Processes, ""},
	}
}

// The kinds of a sandbox.
const (
	None       = "none"
	Bubblewrap = "bubblewrap"
)

// UnmarshalJSON reads an object, or the kind alone.
func (s *Sandbox) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, &s.Kind) == nil {
		return nil
	}
	type plain Sandbox
	if err := strictjson.Decode(raw, (*plain)(s)); err != nil {
		f := fault.Of(err)
		return fault.Newf(fault.Invalid, "sandbox: %s", f.Message).With("field", "sandbox")
	}
	if s.Kind == "" {
		return invalid("sandbox.kind", "is required: %s or %s", None, Bubblewrap)
	}
	return nil
}

// Check says what is wrong with how the sandbox is described, by the field.
func (s Sandbox) Check() error {
	switch {
	case s.Kind != "" && s.Kind != None && s.Kind != Bubblewrap:
		return invalid("sandbox.kind", "must be %s or %s", None, Bubblewrap)
	case !s.On() && (s.Read != nil || s.Write != nil || s.Hide != nil || s.ProjectDir != "" || s.Network != nil):
		return invalid("sandbox", `has settings that hold with "kind":"%s" only`, Bubblewrap)
	case s.ProjectDir != "" && s.ProjectDir != "write" && s.ProjectDir != "read":
		return invalid("sandbox.project_dir", "must be write or read")
	}
	for field, paths := range map[string][]string{"read": s.Read, "write": s.Write, "hide": s.Hide} {
		if err := checkPaths(field, paths); err != nil {
			return err
		}
	}
	return nil
}

func checkPaths(field string, paths []string) error {
	for i, p := range paths {
		switch {
		case strings.ContainsRune(p, 0) || !filepath.IsAbs(p) && !strings.HasPrefix(p, "~/"):
			return invalid("sandbox."+field, "[%d] %.80q must be an absolute path, or begin with ~/", i, p)
		case field != "read" && filepath.Clean(p) == "/":
			return invalid("sandbox."+field, "[%d] must not be the root: there would be no sandbox", i)
		}
	}
	return nil
}

// Hold tells whether this machine can keep the confinement, and what to do where it cannot: without that a program would run
// with more than its profile says.
func (c *Confinement) Check() error {
	if err := c.Limits.possible(); err != nil {
		return err
	}
	if !c.Sandbox.On() {
		return nil
	}
	for field, paths := range map[string][]string{"read": c.Sandbox.Read, "write": c.Sandbox.Write} {
		for _, p := range paths {
			if _, err := os.Stat(home(p)); err != nil {
				return invalid("sandbox."+field, "names %q: %v", p, err)
			}
		}
	}
	return c.Sandbox.possible()
}

// Exposes is a secret file that programs can read: the first that neither the sandbox nor Hide keeps from them; empty: there is none.
func (c *Confinement) ExposedSecret() string {
	for _, file := range c.SecretFiles {
		if !c.Sandbox.On() && !hides(file) {
			return realName(file)
		}
	}
	return ""
}

// confine gives the program as it is to be started, and the folder of its temporary files.
func (c *Confinement) confine(s Spec) (confined Spec, temp string, err error) {
	if temp, err = temporary(); err != nil {
		return s, "", &StartError{s.Path, err.Error(), err}
	}
	s.Env, s.limits = with(s.Env, "TMPDIR", temp), c.Limits.kernel()
	if c.Sandbox.On() {
		if s, err = c.wrapped(s, temp); err != nil {
			discard(temp)
			return s, "", err
		}
		s.sandboxed = true
	}
	return s, temp, nil
}
