package run

import (
	"encoding/json"
	"testing"
	"time"
)

func TestEventIsOneFlatObject(t *testing.T) {
	e := Event{Type: EventMessage, SessionID: "ses_1", RunID: "run_1",
		At: time.Date(2025, 1, 10, 12, 0, 0, 0, time.UTC), Body: TextMessage("assistant", "hi")}
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"event_type":"message","session_id":"ses_1","run_id":"run_1","timestamp":"2025-01-10T12:00:00Z",` +
		`"role":"assistant","content":[{"type":"text","text":"hi"}]}`
	if string(raw) != want {
		t.Errorf("got %s, want %s", raw, want)
	}
	var back Event
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if string(back.Body) != string(e.Body) || back.RunID != e.RunID {
		t.Errorf("read back: %+v", back)
	}
}

// TestEventBodyCannotSetItsIDs: executors may have members of the same names in their events, with ids of their own.
func TestEventBodyCannotSetItsIDs(t *testing.T) {
	e := Event{Type: EventMetadata, SessionID: "ses_1", RunID: "run_1",
		At:   time.Date(2025, 1, 10, 12, 0, 0, 0, time.UTC),
		Body: json.RawMessage(`{"session_id":"model-7","run_id":7,"timestamp":1736510400,"Session_ID":"x","tokens":3}`)}
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var back Event
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if back.SessionID != "ses_1" || back.RunID != "run_1" || !back.At.Equal(e.At) ||
		string(back.Body) != `{"Session_ID":"x","tokens":3}` {
		t.Errorf("read back: %+v with %s", back, back.Body)
	}
	for _, bad := range []string{`[]`, `null`, `7`, `{"event_type":7}`} {
		if err := json.Unmarshal([]byte(bad), new(Event)); err == nil && bad != `null` {
			t.Errorf("%s is read", bad)
		}
	}
}

func TestResultKeepsEveryJSONValue(t *testing.T) {
	for _, data := range []string{`{}`, `[]`, `0`, `false`, `""`, `{"z":1,"a":12345678901234567890}`} {
		raw, err := json.Marshal(Result{Type: Procedural, Data: json.RawMessage(data)})
		if err != nil {
			t.Fatal(err)
		}
		if want := `{"result_type":"procedural","result_text":null,"result_data":` + data + `}`; string(raw) != want {
			t.Errorf("got %s, want %s", raw, want)
		}
	}
}
