package versions

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"ao/coordinator/projection/state"
)

// The version that all coordinators read falls at once. It rises only when all have announced a higher one for ten
// minutes, to the lowest that was announced meanwhile. A coordinator that announces none counts as version 1, and so
// does a round without answers.
func TestTheVersionOfAllCoordinators(t *testing.T) {
	const noVersion = `{"name":"ao","id":"x","version":"1.0.0","type":"io.nats.micro.v1.ping_response"}`
	replies := func(versions ...int) (all [][]byte) {
		for _, n := range versions {
			if n == 0 {
				all = append(all, []byte(noVersion))
				continue
			}
			all = append(
				all,
				[]byte(strings.Replace(noVersion, `{`, `{"metadata":{"`+versionKey+`":"`+strconv.Itoa(n)+`"},`, 1)),
			)
		}
		return all
	}
	v := New(Config{Records: 3})
	records := &v.records
	now := records.since
	for _, tt := range []struct {
		name  string
		after time.Duration
		shown []int
		want  int
	}{
		{"at the start", 0, []int{3}, 1},
		{"an older one goes", 5 * time.Minute, []int{3, 2}, 1},
		{"not yet", 9 * time.Minute, []int{3}, 1},
		{"the lowest of the time counts", 10 * time.Minute, []int{3}, 2},
		{"and again", 15 * time.Minute, []int{3, 3}, 2},
		{"all are new", 20 * time.Minute, []int{3, 3}, 3},
		{"a later one's is not ours to write", 21 * time.Minute, []int{3, 4}, 3},
		{"an older one comes", 22 * time.Minute, []int{3, 0}, 1},
		{"it goes", 23 * time.Minute, []int{3, 3}, 1},
		{"nothing is heard", 29 * time.Minute, nil, 1},
		{"so it begins anew", 38 * time.Minute, []int{3, 3}, 1},
		{"until it is sure", 39 * time.Minute, []int{3, 3}, 3},
		{"nonsense is 1", 40 * time.Minute, []int{3, -7}, 1},
	} {
		if got := records.update(replies(tt.shown...), now.Add(tt.after), 10*time.Minute); got != tt.want ||
			v.Now() != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// Under an attempt's key coordinators write what the attempt allows, and what all read now.
func TestTheVersionOfAnAttemptsRecords(t *testing.T) {
	v := New(Config{Records: 3})
	for _, tt := range []struct{ all, bound, of, shown int }{{1, 0, 1, 0}, {1, 3, 1, 0}, {2, 3, 2, 2}, {3, 0, 1, 3},
		{3, 2, 2, 3}} {
		v.records.lowest.Store(int64(tt.all))
		if of, shown := v.Of(state.Active{RecordVersion: tt.bound}), v.records.advertised(); of != tt.of ||
			shown != tt.shown {
			t.Errorf("%+v: got %d, advertised %d", tt, of, shown)
		}
	}
}
