package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"ao/shared/fault"

	"golang.org/x/sys/unix"
)

// cpuKillDelay is the CPU time in seconds between SIGXCPU and SIGKILL.
const cpuKillDelay = 2

func (l Limits) rlimits() []rlimit {
	if !l.any() {
		return nil
	}
	all := []rlimit{{syscall.RLIMIT_CORE, syscall.Rlimit{}}}
	for _, r := range []struct {
		what, set, unit, beyond int
	}{
		{syscall.RLIMIT_CPU, l.CPUSeconds, 1, cpuKillDelay}, {syscall.RLIMIT_DATA, l.MemoryMB, 1 << 20, 0},
		{syscall.RLIMIT_AS, l.AddressSpaceMB, 1 << 20, 0},
		{syscall.RLIMIT_FSIZE, l.FileMB, 1 << 20, 0}, {syscall.RLIMIT_NOFILE, l.OpenFiles, 1, 0},
		{unix.RLIMIT_NPROC, l.Processes, 1, 0},
	} {
		if r.set > 0 {
			soft := uint64(r.set) * uint64(r.unit)
			all = append(all, rlimit{r.what, syscall.Rlimit{Cur: soft, Max: soft + uint64(r.beyond)}})
		}
	}
	return all
}

// setLimits sets the limits of a program that was started with PTRACE_TRACEME. The kernel stops it after its exec,
// before its first instruction, until the thread that started it detaches. Go runs no code of ours between fork and
// exec, and a launcher program would cost its own start (decision 0021). If the program was killed meanwhile, it is
// left as a zombie.
func setLimits(pid int, limits []rlimit) error {
	const trapped = 4 // CLD_TRAPPED
	info, err := waitid(pid, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT)
	if err != nil {
		return killUnlimited(pid, err)
	}
	if info.Code != trapped {
		return nil
	}
	for _, r := range limits {
		var has unix.Rlimit
		_ = unix.Prlimit(pid, r.what, nil, &has) // if it fails, so does the next call
		most := min(r.Max, has.Max)              // never above the worker's own limit
		if err := unix.Prlimit(pid, r.what, &unix.Rlimit{Cur: min(r.Cur, most), Max: most}, nil); err != nil {
			return killUnlimited(pid, err)
		}
	}
	if err := syscall.PtraceDetach(pid); err != nil && err != syscall.ESRCH {
		return killUnlimited(pid, err)
	}
	return nil
}

// errSetLimits is why a program that could not be limited did not start.
var errSetLimits = errors.New("cannot set its limits")

func killUnlimited(pid int, err error) error {
	syscall.Kill(pid, syscall.SIGKILL)
	reap(pid)
	return fmt.Errorf("%w: %w", errSetLimits, err)
}

const ptraceHint = "; the worker sets them with ptrace: allow ptrace in the container's seccomp profile, and set " +
	"kernel.yama.ptrace_scope below 3"

// supported reports whether this machine can enforce these limits.
func (l Limits) supported() error {
	if !l.any() {
		return nil
	}
	if l.Processes > 0 && unlimitedRoot() {
		return invalid("limits.processes",
			"does not apply to root, whose processes the kernel does not count; run the worker as another user, or "+
				"remove the limit")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	program, err := Find("true", os.DevNull)
	if err != nil { // a minimal container: the first run reports it
		return nil
	}
	// any limit will do
	if _, err := Run(ctx, Spec{Path: program, limits: Limits{Processes: 1 << 30}.rlimits()}); err != nil {
		return fault.Newf(fault.Invalid, "cannot set limits on this machine: %v", err).With("field", "limits")
	}
	return nil
}

// unlimitedRoot reports whether this process is root outside every user namespace, whose processes are not counted.
func unlimitedRoot() bool {
	m, _ := os.ReadFile("/proc/self/uid_map")
	return os.Getuid() == 0 && strings.Join(strings.Fields(string(m)), " ") == "0 0 4294967295"
}

// bubblewrapWorks tests once whether bubblewrap works here.
var bubblewrapWorks = sync.OnceValue(func() error {
	program, err := Find(bwrap, os.DevNull)
	if err != nil {
		return errors.New("sandbox: " + noBubblewrap[strings.Index(noBubblewrap, "bwrap is"):])
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	args := append(append([]string{}, namespaces...), "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev",
		"--", program, "--version")
	exit, err := Run(ctx, Spec{Path: program, Args: args, Env: []string{"PATH=" + os.Getenv("PATH")},
		Dir: "/", sandboxed: true})
	if err != nil {
		return fmt.Errorf("sandbox: cannot start bubblewrap: %w", err)
	}
	if exit.Code != 0 || !bytes.Contains(exit.Stdout, []byte("bubblewrap")) {
		return fmt.Errorf("sandbox: bubblewrap cannot create namespaces (%s); allow them: sysctl "+
			"user.max_user_namespaces above 0, kernel.unprivileged_userns_clone=1 and "+
			"kernel.apparmor_restrict_unprivileged_userns=0 where they exist, in a container a seccomp profile that "+
			"allows unshare, mount and clone; or remove \"sandbox\" from the profile", exit.Reason())
	}
	return nil
})

// supported reports why this machine cannot make a sandbox.
func (Sandbox) supported() error {
	if err := bubblewrapWorks(); err != nil {
		return fault.New(fault.Invalid, "", err.Error()).With("field", "sandbox")
	}
	return nil
}

// signalInside signals the program in a sandbox and its descendants. It spares bubblewrap's own two processes in the
// group: a signal to the outer one would end the sandbox immediately. false: there is no such process yet.
func signalInside(leader int, s syscall.Signal) (any bool) {
	tree := map[int]bool{}
	addDescendants(leader, tree)
	first := children(leader)
	for pid := range tree {
		if _, group := stateAndGroup(pid); group == leader && !first[pid] && syscall.Kill(pid, s) == nil {
			any = true
		}
	}
	return any
}

// children returns the direct children of a process.
func children(pid int) map[int]bool {
	list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	all := map[int]bool{}
	for _, child := range parseInts(list) {
		all[child] = true
	}
	return all
}
