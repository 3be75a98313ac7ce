package bus

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ServerVersion is the major and the minor version of a nats-server.
type ServerVersion [2]int

// MinServer is the oldest nats-server that works: it has atomic batches.
var MinServer = ServerVersion{2, 12}

// ParseServerVersion reads a version such as "2.15.2". ok: it is one.
func ParseServerVersion(text string) (v ServerVersion, ok bool) {
	major, rest, _ := strings.Cut(strings.TrimPrefix(text, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	return ServerVersion{a, b}, errA == nil && errB == nil
}

// Before reports whether a version is older than another one.
func (v ServerVersion) Before(o ServerVersion) bool { return slices.Compare(v[:], o[:]) < 0 }

func (v ServerVersion) String() string { return fmt.Sprintf("%d.%d", v[0], v[1]) }

// CheckServer returns why a server of that version cannot be used. One that cannot be read may be.
func CheckServer(version string) error {
	if v, ok := ParseServerVersion(version); ok && v.Before(MinServer) {
		return fmt.Errorf("nats-server %s is too old: run %s or newer; older ones have no atomic batches", version,
			MinServer)
	}
	return nil
}
