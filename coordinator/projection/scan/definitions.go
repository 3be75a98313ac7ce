package scan

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"strconv"

	"ao/shared/agent"
	"ao/shared/run"
)

// definitions knows the hashes of agents' definitions. Almost every run carries one that others carried before, so each
// is computed once.
type definitions struct {
	seed   maphash.Seed
	hashes map[uint64]uint64 // by a hash of the definition's bytes
}

// maxDefinitions is how many hashes are remembered.
const maxDefinitions = 1 << 14

func newDefinitions() definitions {
	return definitions{maphash.MakeSeed(), map[uint64]uint64{}}
}

// HashOf returns the hash of the definition that a run was accepted with; 0: it is unknown.
func (d *definitions) HashOf(s *run.Spec) uint64 {
	switch {
	case s.Owner != "":
		return HashNumber(s.Owner)
	case s.Input == nil:
		return HashNumber(s.AgentHash)
	}
	return d.hash(s.Blueprint)
}

func (d *definitions) hash(definition json.RawMessage) uint64 {
	bytes := maphash.Bytes(d.seed, definition)
	h, ok := d.hashes[bytes]
	if !ok {
		if len(d.hashes) == maxDefinitions {
			clear(d.hashes)
		}
		h = HashNumber(agent.HashOf(definition))
		d.hashes[bytes] = h
	}
	return h
}

// HashNumber reads a hash; 0: it is none.
func HashNumber(hash string) uint64 {
	n, err := strconv.ParseUint(hash, 16, 64)
	if err != nil {
		return 0
	}
	return n
}

// HashText is the inverse of hashNumber.
func HashText(n uint64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%016x", n)
}
