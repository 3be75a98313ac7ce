package process

import "syscall"

// Private denies other processes of the same user to read this process's memory, environment or open files through
// /proc, or to trace it; it also disables core dumps. A worker calls it at its start: programs without a sandbox run
// as its user and must not get its keys. Programs that it starts are not private.
func Private() {
	const setDumpable = 4 // PR_SET_DUMPABLE
	syscall.RawSyscall(syscall.SYS_PRCTL, setDumpable, 0, 0)
}
