package process

import "syscall"

// Private closes this process to others of the same user: they cannot read its memory, its environment or its open files through
// /proc, nor trace it, and it dumps no core. A worker is called so at its beginning, since programs that are in no sandbox have its
// user, and it has keys that they have not. Programs that it starts are as open as any.
func Private() {
	const setDumpable = 4 // PR_SET_DUMPABLE
	syscall.RawSyscall(syscall.SYS_PRCTL, setDumpable, 0, 0)
}
