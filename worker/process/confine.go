package process

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"ao/shared/fault"
	"ao/shared/wire"
)

// Confinement is what the programs of a profile may have and see. Whoever is confined has a folder for temporary files of its own
// (TMPDIR), which is removed with all that is in it when nothing of the program is left.
type Confinement struct {
	Limits  Limits
	Sandbox Sandbox
	Reads   []string // what the sandbox shows beside, read-only: folders that the programs belong to
	Secrets []string // files that the sandbox hides, whatever else it shows
}

// Limits are those of each process of a program, as the kernel keeps them (setrlimit); 0: none of its own. They hold from the
// program's first instruction on, and all that it starts inherits them. Where one is set, no core is dumped either.
type Limits struct {
	CPUSeconds     int `json:"cpu_seconds"`      // of CPU time; SIGXCPU then, and two seconds later SIGKILL
	MemoryMB       int `json:"memory_mb"`        // MiB that it may write: heap, stack of threads, private mappings (RLIMIT_DATA)
	AddressSpaceMB int `json:"address_space_mb"` // MiB of addresses, used or not (RLIMIT_AS): too small for node, Go and Java
	FileMB         int `json:"file_mb"`          // MiB of a file that it writes; SIGXFSZ beyond
	OpenFiles      int `json:"open_files"`       // file descriptors
	Processes      int `json:"processes"`        // processes and threads of the worker's user at once; in a sandbox only those inside count
}

// Any tells whether there is any limit.
func (l Limits) Any() bool { return l != Limits{} }

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

// Sandbox is what programs see of the machine. The zero value is none at all: all that the worker's user sees.
//
// With bubblewrap the root is read-only, /tmp and all processes are their own, and they end with the worker whatever kills it.
type Sandbox struct {
	Kind       string   `json:"kind"`        // none, bubblewrap
	Read       []string `json:"read"`        // folders and files to see, read-only; default all: "/"
	Write      []string `json:"write"`       // folders to see and to write to, beside the project folder and /tmp
	Hide       []string `json:"hide"`        // folders and files that are empty in there
	ProjectDir string   `json:"project_dir"` // write, which is the default, or read
	Network    *bool    `json:"network"`     // default true; without it the gateway of the run cannot be reached either
}

// UnmarshalJSON reads an object, or the kind alone.
func (s *Sandbox) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, &s.Kind) == nil {
		return nil
	}
	type plain Sandbox
	if err := wire.Decode(raw, (*plain)(s)); err != nil {
		f := fault.Of(err)
		return fault.Newf(fault.Invalid, "sandbox: %s", f.Message).With("field", "sandbox")
	}
	if s.Kind == "" {
		return invalid("sandbox.kind", "is required: %s or %s", None, Bubblewrap)
	}
	return nil
}

// On tells whether there is a sandbox.
func (s Sandbox) On() bool { return s.Kind == Bubblewrap }

// Online tells whether its programs reach the network, and so the gateway.
func (s Sandbox) Online() bool { return !s.On() || s.Network == nil || *s.Network }

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
		for i, p := range paths {
			switch {
			case strings.ContainsRune(p, 0) || !filepath.IsAbs(p) && !strings.HasPrefix(p, "~/"):
				return invalid("sandbox."+field, "[%d] %.80q must be an absolute path, or begin with ~/", i, p)
			case field != "read" && filepath.Clean(p) == "/":
				return invalid("sandbox."+field, "[%d] must not be the root: there would be no sandbox", i)
			}
		}
	}
	return nil
}

func invalid(field, say string, args ...any) error {
	space := " "
	if strings.HasPrefix(say, "[") {
		space = ""
	}
	return fault.New(fault.Invalid, "", field+space+fmt.Sprintf(say, args...)).With("field", field)
}

// Hold tells whether this machine can keep the confinement, and what to do where it cannot: without that a program would run
// with more than its profile says.
func (c *Confinement) Hold() error {
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
func (c *Confinement) Exposes() string {
	for _, file := range c.Secrets {
		if !c.Sandbox.On() && !Hides(file) {
			return realName(file)
		}
	}
	return ""
}

// home is a path with the home folder of the worker's user put in for ~.
func home(p string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		if dir, err := os.UserHomeDir(); err == nil {
			return filepath.Join(dir, rest)
		}
	}
	return filepath.Clean(p)
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

// rlimit is a limit as the kernel takes it.
type rlimit struct {
	what int
	syscall.Rlimit
}

// with gives an environment with a variable set.
func with(env []string, name, value string) []string {
	all := make([]string, 0, len(env)+2) // one more for the mark
	for _, v := range env {
		if !strings.HasPrefix(v, name+"=") {
			all = append(all, v)
		}
	}
	return append(all, name+"="+value)
}

// folder is the folder that a program works in.
func (s Spec) folder() string {
	dir, err := filepath.Abs(cmp.Or(s.Dir, "."))
	if err != nil {
		return cmp.Or(s.Dir, "/")
	}
	return dir
}
