package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// EventVersion is the newest format of messages in EVENTS: 1 is one event per message, 2 adds packs.
const EventVersion = 2

// PackKind is the last token of a pack's subject, where an event has its kind. A pack is a message with several
// events of one run.
const PackKind = "pack"

// The limits of a pack: events, and bytes (a single event may be larger).
const (
	MaxPacked = 256
	MaxPack   = 256 << 10
)

// Pack makes a pack of events, each as it would be alone in a message, unsigned.
func Pack(events [][]byte) []byte {
	return append(append([]byte(`{"events":[`), bytes.Join(events, []byte(","))...), `]}`...)
}

// Unpack returns the events of a pack, in order. The input is untrusted: it stops at the first error, and at
// the first event too many.
func Unpack(body []byte) (events []Event, err error) {
	d := json.NewDecoder(bytes.NewReader(body))
	for _, want := range []json.Token{json.Delim('{'), "events", json.Delim('[')} {
		if got, err := d.Token(); err != nil || got != want {
			return nil, errors.New(`a pack begins with {"events":[`)
		}
	}
	for d.More() {
		if len(events) == MaxPacked {
			return nil, fmt.Errorf("a pack has at most %d events", MaxPacked)
		}
		var e Event
		if err := d.Decode(&e); err != nil {
			return nil, fmt.Errorf("event %d of a pack: %w", len(events)+1, err)
		}
		events = append(events, e)
	}
	for _, want := range []json.Token{json.Delim(']'), json.Delim('}')} {
		if got, err := d.Token(); err != nil || got != want {
			return nil, errors.New("a pack ends with its events")
		}
	}
	if _, err := d.Token(); len(events) == 0 || err != io.EOF {
		return nil, errors.New("a pack is one object with an event or more")
	}
	return events, nil
}
