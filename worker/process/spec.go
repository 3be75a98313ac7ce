package process

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ao/shared/fault"
)

// MarkEnv is the environment variable that marks all processes of a Run. Run sets it; callers must not.
const MarkEnv = "AGENT_ORCHESTRATOR_PROCESS"

// Spec is a program to run. Path is required.
type Spec struct {
	Path        string            // path of the program; relative to Dir unless absolute (Find)
	Args        []string          // without the program's name
	Dir         string            // working directory; default this process's
	Env         []string          // the whole environment, KEY=value; nothing is inherited
	Stdin       []byte            // default /dev/null
	MaxOutput   int               // bytes kept of stdout and of stderr each; default 4 MiB
	MaxLine     int               // bytes of a line for OnStdout and OnStderr, cut visibly; default 64 KiB
	OnStdout    func(line []byte) // called for each line without its line end; the bytes are valid during the call
	OnStderr    func(line []byte) // like OnStdout, concurrently; both must return soon, the program waits
	Grace       time.Duration     // between SIGTERM and SIGKILL when ctx ends; default 5 s
	Reads       []string          // files that the program needs; readable in a sandbox
	Confinement *Confinement      // nil: not confined

	// Input is written to stdin after Stdin, until it is closed; nil: none. Nobody receives from it once the
	// program has ended: the sender must watch for that.
	Input <-chan Piece

	// Kill, once closed, sends SIGKILL to the group without grace; ctx must have ended by then. Nil: never.
	Kill <-chan struct{}

	// Sealed, if set, is started in place of Path, which it is a copy of. It is a program of the worker's own, so it
	// may read what Hide denies to others, and must not be confined.
	Sealed *Sealed

	limits    []rlimit // from Confinement
	sandboxed bool     // Path is bubblewrap
}

// Sealed is a program whose processes nobody else can look into (Seal).
type Sealed struct{ file *os.File }

// Piece is input for a program's stdin. Done is called when all of it is written; an error means that the program did
// not get all of it and never will.
type Piece struct {
	Data []byte
	Done func(error)
}

// Exit is how a program ended.
type Exit struct {
	Started   bool           // false if ctx had ended before, or with a *StartError
	Code      int            // exit code; 128 + the signal's number if a signal ended it
	signal    syscall.Signal // what ended it, or 0
	Stdout    []byte         // at most MaxOutput bytes, with a line that says how much was cut
	Stderr    []byte
	StdoutCut int64 // bytes cut out of Stdout
	StderrCut int64
	cpu       time.Duration // user and system time of the program and the children that it waited for
	Hit       Hit           // the limit that probably ended it
	crlf      bool          // it failed, and is a script whose first line ends in a carriage return
}

// Confinement limits what the programs of a profile may use and see. A confined program has its own folder for
// temporary files (TMPDIR), which is removed with its contents when the whole tree has ended.
type Confinement struct {
	Limits      Limits
	Sandbox     Sandbox
	Reads       []string // more paths readable in the sandbox: the programs' own folders
	SecretFiles []string // files that the sandbox always hides
}

// Limits are limits of each process of a program, enforced by the kernel (setrlimit); 0: none. They apply from the
// program's first instruction, and its children inherit them. If any is set, core dumps are off.
type Limits struct {
	CPUSeconds int `json:"cpu_seconds"` // CPU time; then SIGXCPU, and after 2 s more SIGKILL
	// MiB of writable memory: heap, thread stacks, private mappings (RLIMIT_DATA)
	MemoryMB int `json:"memory_mb"`
	// MiB of address space, used or not (RLIMIT_AS); node, Go and Java reserve a lot
	AddressSpaceMB int `json:"address_space_mb"`
	FileMB         int `json:"file_mb"`    // MiB of each written file; SIGXFSZ beyond
	OpenFiles      int `json:"open_files"` // file descriptors
	// processes and threads of the worker's user; in a sandbox only those inside
	Processes int `json:"processes"`
}

func (l Limits) any() bool { return l != Limits{} }

// Sandbox is what programs see of the machine. The zero value is no sandbox: they see what the worker's user sees.
//
// With bubblewrap the root is read-only, /tmp and the processes are the program's own, and it ends with the worker,
// whatever kills that.
type Sandbox struct {
	Kind       string   `json:"kind"`        // none, bubblewrap
	Read       []string `json:"read"`        // readable paths; default "/"
	Write      []string `json:"write"`       // writable folders besides the project folder and /tmp
	Hide       []string `json:"hide"`        // paths that are empty in the sandbox
	ProjectDir string   `json:"project_dir"` // write (default) or read
	Network    *bool    `json:"network"`     // default true; without it the run's gateway is unreachable, too
}

func (s Sandbox) enabled() bool { return s.Kind == Bubblewrap }

// HasNetwork reports whether programs reach the network, and so the gateway.
func (s Sandbox) HasNetwork() bool { return !s.enabled() || s.Network == nil || *s.Network }

// rlimit is a limit as the kernel takes it.
type rlimit struct {
	what int
	syscall.Rlimit
}

// setEnv returns the environment with a variable set.
func setEnv(env []string, name, value string) []string {
	all := make([]string, 0, len(env)+2) // room for the mark
	for _, v := range env {
		if !strings.HasPrefix(v, name+"=") {
			all = append(all, v)
		}
	}
	return append(all, name+"="+value)
}

// absDir returns the absolute working directory.
func (s Spec) absDir() string {
	dir, err := filepath.Abs(cmp.Or(s.Dir, "."))
	if err != nil {
		return cmp.Or(s.Dir, "/")
	}
	return dir
}

// expandHome replaces a leading ~/ by the home folder of the worker's user.
func expandHome(p string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		if dir, err := os.UserHomeDir(); err == nil {
			return filepath.Join(dir, rest)
		}
	}
	return filepath.Clean(p)
}

func invalid(field, format string, args ...any) error {
	space := " "
	if strings.HasPrefix(format, "[") {
		space = ""
	}
	return fault.New(fault.Invalid, "", field+space+fmt.Sprintf(format, args...)).With("field", field)
}

// Hit is the limit that probably ended a program.
type Hit struct {
	Limit   string // its name in the profile; empty: unknown
	certain bool
	value   string
}

// String returns a sentence without a full stop.
func (h Hit) String() string {
	if h.certain {
		return "it hit the limit " + h.Limit + " of its profile (" + h.value + ")"
	}
	return "it probably hit the limit " + h.Limit + " of its profile (" + h.value + ")"
}

// hiddenFiles are the paths that no program of this process may read.
type hiddenFiles struct {
	paths []string   // without links
	pool  *spawnPool // starts programs that cannot read them
}

// hidden is nil if nothing is hidden.
var hidden atomic.Pointer[hiddenFiles]

// spawnPool is a pool of threads that start programs. A program must die with this process (Pdeathsig), but for the
// kernel that means with the thread that started it. So only goroutines that never return start programs, each locked
// to its thread. None is the main thread (see the package comment).
type spawnPool struct {
	once     sync.Once
	requests chan *spawnRequest
	prepare  func() error // called by each thread before it starts programs; may be nil
	err      error        // error of prepare: nothing is started
}

type spawnRequest struct {
	path   string
	argv   []string
	attr   *syscall.ProcAttr
	limits []rlimit // set before the program starts
	pid    int
	err    error
	done   chan struct{}
}
