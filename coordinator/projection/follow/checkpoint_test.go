package follow

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/nats/natstest"
	"ao/shared/run"
)

func TestCheckpointIsAbandonedOnTruncation(t *testing.T) {
	j := joined(nil, projection.Config{Key: keyOf})
	for _, m := range plain(t, 20) {
		j.Apply(m)
	}
	_, _, err := writeCheckpoint(j.Projection, "x", io.Discard, 1, func() { j.Forget(2) })
	if err != state.ErrInterrupted {
		t.Errorf("got %v", err)
	}
}

func TestDamagedCheckpointIsRefused(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 23))
	j := joined(nil, projection.Config{Key: keyOf, ValidChecked: marked})
	a, records := newActor(t, run.NewID(), "ses_open", "agent"), plain(t, 20)
	for _, e := range []entry{a.Queued(1), a.Claimed(1), a.Bound(1, "model")} {
		records = append(records, message(len(records)+1, e))
	}
	for _, m := range records {
		j.Apply(m)
	}
	var all bytes.Buffer
	if _, _, err := writeCheckpoint(j.Projection, "RUNS then", &all, 1, func() {}); err != nil {
		t.Fatal(err)
	}
	raw := sealed(all.Bytes())
	if _, err := loaded(raw, "RUNS then", keyOf); err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		if i%natstest.Load(5, 1) != 0 && i > 64 {
			continue
		}
		for _, flip := range []byte{1, 0x80, byte(1 + rng.IntN(255))} {
			bad := slices.Clone(raw)
			bad[i] ^= flip
			if _, err := loaded(bad, "RUNS then", keyOf); err == nil {
				t.Fatalf("byte %d of %d is another one, and it is taken", i, len(raw))
			}
		}
		if _, err := loaded(raw[:i], "RUNS then", keyOf); err == nil {
			t.Fatalf("the first %d bytes of %d are taken", i, len(raw))
		}
	}
	for _, tt := range []struct {
		name, want string
		raw        []byte
		identity   string
	}{
		{"another stream's", "another stream", raw, "RUNS now"},
		{"of another version", "version", sealed(bytes.Replace(raw[:len(raw)-4],
			fmt.Append(nil, state.CheckpointVersion),
			fmt.Append(nil, state.CheckpointVersion+1), 1)), "RUNS then"},
		{"of the format before", "version", sealed([]byte("AOFOLD\r\n\x10")), "RUNS then"},
		{"without an end", "damaged", sealed([]byte(checkpointHeader("RUNS then"))), "RUNS then"},
		{"empty", "damaged", nil, "RUNS then"},
	} {
		if _, err := loaded(tt.raw, tt.identity, keyOf); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("a snapshot %s: %v", tt.name, err)
		}
	}
}

func loaded(raw []byte, identity string, key func(string, int) string) (*state.State, error) {
	return load(bytes.NewReader(raw), int64(len(raw)), identity, key)
}
