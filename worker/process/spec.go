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

// MarkEnv is the environment variable that marks all processes of a Run. Run sets it; callers leave it alone.
const MarkEnv = "AGENT_ORCHESTRATOR_PROCESS"

// Spec is a program to run. Path is required.
type Spec struct {
	Path  string       // the program's file; relative to Dir unless absolute (see Find)
	Args  []string     // without the program's own name
	Dir   string       // working directory; default: this process's
	Env   []string     // the whole environment, KEY=value; nothing is inherited
	Stdin []byte       // default: nothing to read (/dev/null)
	Input <-chan Piece // written to stdin after that, until it is closed; nil: stdin ends there. Nobody takes
	//                             from it any more once the program has ended: its sender looks for that, too.
	MaxOutput int               // bytes kept of stdout and of stderr, each; default 4 MiB
	MaxLine   int               // bytes of a line given to OnStdout and OnStderr, the rest is cut visibly; default 64 KiB
	OnStdout  func(line []byte) // called for each line while the program runs, without its end; not kept after the call.
	OnStderr  func(line []byte) // Both must return soon: the program waits for them. They may be called at the same time.
	Grace     time.Duration     // between SIGTERM and SIGKILL when ctx ends; default 5 s
	WaitDelay time.Duration     // how long pipes may stay open after the end of all processes known; default 2 s
	Reads     []string          // files that the program reads, wherever they lie: a sandbox shows them
	In        *Confinement      // what it may have and see; nil: all that this process may
	Kill      <-chan struct{}   // once closed, the group gets SIGKILL at once, whatever grace it is in; ctx ends before or with it. nil: never

	limits    []rlimit // of Confinement
	sandboxed bool     // Path is bubblewrap
}

// Piece is something for a program's stdin. Done is told whether all of it has been written; an error means that the
// program has not had all of it and will not.
type Piece struct {
	Data []byte
	Done func(error)
}

// Exit is how a program ended.
type Exit struct {
	Began     bool           // it was started; false where ctx had ended before, or with a *StartError
	Code      int            // exit code; 128 + the signal's number where a signal ended it
	Signal    syscall.Signal // what ended it, or 0
	Stdout    []byte         // what it wrote, at most MaxOutput, with a line that says how much was cut
	Stderr    []byte
	StdoutCut int64 // bytes cut out of Stdout
	StderrCut int64
	CPU       time.Duration // user and system time of the program and of those of its children that it waited for
	Hit       Hit           // the limit of its confinement that it seems to have ended by
}

// Confinement is what the programs of a profile may have and see. Whoever is confined has a folder for temporary files of its own
// (TMPDIR), which is removed with all that is in it when nothing of the program is left.
type Confinement struct {
	Limits      Limits
	Sandbox     Sandbox
	Reads       []string // what the sandbox shows beside, read-only: folders that the programs belong to
	SecretFiles []string // files that the sandbox hides, whatever else it shows
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

// On tells whether there is a sandbox.
func (s Sandbox) On() bool { return s.Kind == Bubblewrap }

// Online tells whether its programs reach the network, and so the gateway.
func (s Sandbox) Online() bool { return !s.On() || s.Network == nil || *s.Network }

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

// home is a path with the home folder of the worker's user put in for ~.
func home(p string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		if dir, err := os.UserHomeDir(); err == nil {
			return filepath.Join(dir, rest)
		}
	}
	return filepath.Clean(p)
}

func invalid(field, say string, args ...any) error {
	space := " "
	if strings.HasPrefix(say, "[") {
		space = ""
	}
	return fault.New(fault.Invalid, "", field+space+fmt.Sprintf(say, args...)).With("field", field)
}

// Hit is the limit that a program seems to have ended by.
type Hit struct {
	Limit string // its name in the profile; empty: none is known
	sure  bool
	text  string
}

// String says it in a sentence without its full stop.
func (h Hit) String() string {
	if h.sure {
		return "The limit " + h.Limit + " of its profile (" + h.text + ") was hit"
	}
	return "Perhaps the limit " + h.Limit + " of its profile (" + h.text + ") was hit"
}

// hiding is what no program of this process may read, and how that is kept.
type hiding struct {
	paths []string // real names
	pool  *pool    // starts programs that cannot
}

// hidden is nil where nothing is hidden.
var hidden atomic.Pointer[hiding]

// pool is the threads that start programs. A program is to die with this process (Pdeathsig), but the kernel means
// the thread that started it; so programs are started only by threads that live as long as the process does:
// goroutines locked to their thread which never return. None of them is the main thread (see the package comment).
type pool struct {
	once sync.Once
	ask  chan *birth
	bind func() error // what each thread does to itself, and so to its programs, before it starts any; default nothing
	err  error        // bind's: nothing is started then
}

type birth struct {
	path string
	argv []string
	attr *syscall.ProcAttr
	most []rlimit // which hold before it begins
	pid  int
	err  error
	done chan struct{}
}
