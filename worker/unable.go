package worker

import (
	"errors"
	"slices"
	"syscall"

	"ao/shared/fault"
	"ao/worker/process"
	"ao/worker/profile"
)

// inabilities are the failures that say that no such run can be done on this runner at the moment. Unless the run has
// shown work before, nothing of it was done. This is the only list of them, for every executor.
var inabilities = []struct {
	executor string // the profile's command; empty: every executor
	ofAgent  bool   // of a procedural profile only this agent is concerned: each has its own program
	means    func(f *fault.Fault) bool
}{
	{means: noResources},
	{ofAgent: true, means: notStartable},
	{executor: profile.ClaudeCodeExec, means: hasCode("claude_not_logged_in", "claude_no_credit")},
	{executor: profile.LLMExec, means: hasCode("llm_unauthorized", "llm_no_credit")},
}

// inability returns whether a failure is one of inabilities, and whether it concerns this agent only.
func inability(executor string, f *fault.Fault) (ofAgent, ok bool) {
	if f == nil {
		return false, false
	}
	for _, i := range inabilities {
		if (i.executor == "" || i.executor == executor) && i.means(f) {
			return i.ofAgent, true
		}
	}
	return false, false
}

// noResources reports whether the machine has no space, memory, process or file left for a program's start.
func noResources(f *fault.Fault) bool {
	return slices.ContainsFunc([]error{syscall.ENOSPC, syscall.EDQUOT, syscall.ENOMEM, syscall.EAGAIN, syscall.EMFILE,
		syscall.ENFILE}, func(err error) bool { return errors.Is(f, err) })
}

// notStartable reports whether the program is not there or cannot be run, by whatever run.
func notStartable(f *fault.Fault) bool {
	bad, ok := errors.AsType[*process.StartError](f)
	return ok && !bad.OfRun()
}

func hasCode(codes ...string) func(*fault.Fault) bool {
	return func(f *fault.Fault) bool { return slices.Contains(codes, f.Code) }
}

// checker is an Executor that can tell without starting anything why no run could start here.
type checker interface {
	// Check is about an agent's definition. nil: nothing is known to be wrong.
	Check(agent, hash string) *fault.Fault
	// Files returns the files whose change may help; agent "": of the profile.
	Files(agent string) []string
}
