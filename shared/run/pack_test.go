package run

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestAPackKeepsItsEvents(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	for _, n := range []int{1, 2, MaxPacked} {
		var raw [][]byte
		for i := range n {
			kind := ReportedKinds[i%len(ReportedKinds)]
			body := json.RawMessage(fmt.Sprintf(`{"n":%d.10,"events":[{"event_type":"x"}],"proof":"of its own"}`, i))
			one, err := json.Marshal(Event{Type: kind, SessionID: "ses_1", RunID: "run_1",
				At: at.Add(time.Duration(i)), Body: body})
			if err != nil {
				t.Fatal(err)
			}
			raw = append(raw, one)
		}
		pack := SignEvent("key", "subject", Pack(raw))
		bare, by := SplitSignature("subject", pack)
		events, err := Unpack(bare)
		if err != nil || len(events) != n || by == nil || !by("key") || by("another") {
			t.Fatalf("%d events of %d, %v", len(events), n, err)
		}
		for i, e := range events {
			if again, err := json.Marshal(e); err != nil || string(again) != string(raw[i]) {
				t.Errorf("event %d: got %s, want %s, %v", i, again, raw[i], err)
			}
		}
	}
}

// TestForeignPack: what is no pack of ours is refused, whatever it nests or repeats. Reading it makes no more
// allocations than a full pack may.
func TestForeignPack(t *testing.T) {
	const one = `{"event_type":"message"}`
	many := strings.Repeat(one+",", 30_000) + one
	deep := strings.Repeat("[", 400_000)
	for name, body := range map[string]string{
		"nothing":                ``,
		"no object":              `[` + one + `]`,
		"no events":              `{}`,
		"no list":                `{"events":{"0":` + one + `}}`,
		"an empty list":          `{"events":[]}`,
		"something else first":   `{"more":1,"events":[` + one + `]}`,
		"something else behind":  `{"events":[` + one + `],"events":[` + one + `]}`,
		"another value behind":   `{"events":[` + one + `]}{}`,
		"an event that is none":  `{"events":[` + one + `,7]}`,
		"an open end":            `{"events":[` + one,
		"one too many":           `{"events":[` + strings.Repeat(one+",", MaxPacked) + one + `]}`,
		"30,000":                 `{"events":[` + many + `]}`,
		"100,000 that are empty": `{"events":[` + strings.Repeat("{},", 100_000) + `{}]}`,
		"deep": `{"events":[{"event_type":"message","x":` + deep +
			strings.Repeat("]", len(deep)) + `}]}`,
		"deep without an end":      `{"events":[{"x":` + deep,
		"deep instead of a member": `{"events":` + deep,
	} {
		var events []Event
		var err error
		allocated := testing.AllocsPerRun(1, func() { events, err = Unpack([]byte(body)) })
		if err == nil || events != nil {
			t.Errorf("%s: %d events, %v", name, len(events), err)
		}
		if allocated > 40*MaxPacked {
			t.Errorf("%s: %.0f allocations", name, allocated)
		}
	}
}
