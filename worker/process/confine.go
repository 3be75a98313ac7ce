package process

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"ao/shared/fault"
	"ao/shared/strictjson"
)

// maxLimit is the largest value of a limit: as MiB it still fits into an int64 of bytes.
const maxLimit = 1 << 40

// Check reports the first invalid limit, by its field.
func (l Limits) Check() error {
	for _, v := range l.all() {
		if v.value < 0 || v.value > maxLimit {
			return invalid("limits."+v.name, "must be from 1 to %d", int64(maxLimit))
		}
	}
	switch {
	case l.OpenFiles > 0 && l.OpenFiles < 8:
		return invalid("limits.open_files",
			"must be at least 8: a program starts with three, and its loader needs some")
	case l.MemoryMB > 0 && l.AddressSpaceMB > 0 && l.AddressSpaceMB < l.MemoryMB:
		return invalid("limits.address_space_mb", "must be at least limits.memory_mb: memory uses address space")
	}
	return nil
}

// limit is a limit with its name and unit.
type limit struct {
	name  string
	value int
	unit  string
}

func (l Limits) all() []limit {
	return []limit{
		{"cpu_seconds", l.CPUSeconds, " s of CPU time"}, {"memory_mb", l.MemoryMB, " MiB"},
		{"address_space_mb", l.AddressSpaceMB, " MiB"},
		{"file_mb", l.FileMB, " MiB"}, {"open_files", l.OpenFiles, ""}, {"processes", l.Processes, ""},
	}
}

// Kinds of a sandbox.
const (
	noSandbox  = "none"
	Bubblewrap = "bubblewrap"
)

// UnmarshalJSON decodes an object, or the kind alone.
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
		return invalid("sandbox.kind", "is required: %s or %s", noSandbox, Bubblewrap)
	}
	return nil
}

// Check reports the first invalid setting of the sandbox, by its field.
func (s Sandbox) Check() error {
	switch {
	case s.Kind != "" && s.Kind != noSandbox && s.Kind != Bubblewrap:
		return invalid("sandbox.kind", "must be %s or %s", noSandbox, Bubblewrap)
	case !s.enabled() && (s.Read != nil || s.Write != nil || s.Hide != nil || s.ProjectDir != "" || s.Network != nil):
		return invalid("sandbox", `has settings that need "kind":"%s"`, Bubblewrap)
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
			return invalid("sandbox."+field, "[%d] %.80q must be an absolute path or begin with ~/", i, p)
		case field != "read" && filepath.Clean(p) == "/":
			return invalid("sandbox."+field, "[%d] must not be the root: that disables the sandbox", i)
		}
	}
	return nil
}

// Supported reports why this machine cannot enforce the confinement, and what to do about it.
func (c *Confinement) Supported() error {
	if err := c.Limits.supported(); err != nil {
		return err
	}
	if !c.Sandbox.enabled() {
		return nil
	}
	for field, paths := range map[string][]string{"read": c.Sandbox.Read, "write": c.Sandbox.Write} {
		for _, p := range paths {
			if _, err := os.Stat(expandHome(p)); err != nil {
				return invalid("sandbox."+field, "names %q: %v", p, err)
			}
		}
	}
	return c.Sandbox.supported()
}

// ExposedSecret returns the first secret file that programs can read, despite sandbox and Hide; empty: none.
func (c *Confinement) ExposedSecret() string {
	for _, file := range c.SecretFiles {
		if !c.Sandbox.enabled() && !isHidden(file) {
			return realName(file)
		}
	}
	return ""
}

// apply returns the spec to start the program confined, and its folder for temporary files.
func (c *Confinement) apply(s Spec) (confined Spec, temp string, err error) {
	temp, err = newTempDir()
	if err != nil {
		return s, "", &StartError{s.Path, err.Error(), err}
	}
	s.Env, s.limits = setEnv(s.Env, "TMPDIR", temp), c.Limits.rlimits()
	if c.Sandbox.enabled() {
		s, err = c.sandboxed(s, temp)
		if err != nil {
			releaseTempDir(temp)
			return s, "", err
		}
		s.sandboxed = true
	}
	return s, temp, nil
}
