package embed

import (
	"bytes"
	"math"
	"os"
	"runtime/debug"
	"strconv"
)

// unknownMemory is what this process has in bytes, where nothing tells.
const unknownMemory = 4 << 30

// Memory returns how many bytes of memory this process has: GOMEMLIMIT, else the limit of its container, else the
// machine's.
func Memory() int64 {
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		return limit
	}
	least := machineMemory()
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(file) // "max" or a huge number: no limit
		if n, bad := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64); err == nil && bad == nil {
			least = min(least, n)
		}
	}
	return least
}

// machineMemory reads the first line of /proc/meminfo: MemTotal, in KiB.
func machineMemory() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return unknownMemory
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return unknownMemory
	}
	kib, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil || kib <= 0 {
		return unknownMemory
	}
	return kib << 10
}
