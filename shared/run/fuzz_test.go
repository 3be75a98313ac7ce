package run

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"ao/shared/fault"
)

// FuzzReadRequest: a body that callers send is refused by an Invalid fault, or is in the one form that reading it
// again gives again.
func FuzzReadRequest(f *testing.F) {
	for _, seed := range []string{
		`{"agent_name":"a","prompt":"p"}`,
		`{"session_id":"ses_1","type":"resume_session","parameters":{"prompt":"p"}}`, `{}`, `[]`,
		`{"agent_name":"a","mode":"sync","execution_mode":"async_poll"}`,
		`{"agent_name":"a","parameters":{"b":1,"a":2.50},"additional_demands":{"tags":["x"],"hostname":"h"},` +
			`"timeout_seconds":5,"max_attempts":3,"callback_url":"https://example.com/x"}`,
		`{"agent_name":"a","output_schema":{"type":"object"},"output_schema_options":{"max_retries":2}}`,
		`{"agent_name":1}`, `{"agent_name":"a","agent_name":"b"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := ReadRequest(raw)
		if err != nil {
			if fault.KindOf(err) != fault.Invalid || len(err.Error()) > 4000 {
				t.Errorf("refused by %T %.200v", err, err)
			}
			return
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		r2, err := ReadRequest(again)
		if r.Type == "" || r.Mode == "" || err != nil || r2.Type != r.Type || r2.AgentName != r.AgentName ||
			!same(r2.Parameters, r.Parameters) {
			t.Errorf("%s is read as %+v, which is written as %s and read as %+v, %v", raw, r, again, r2, err)
		}
	})
}

// FuzzUnpack: a pack that any worker may have written is refused, or its events can be packed and read again.
func FuzzUnpack(f *testing.F) {
	const one = `{"event_type":"message","session_id":"ses_1","run_id":"run_1",` +
		`"timestamp":"2026-01-01T00:00:00Z","role":"user"}`
	for _, seed := range []string{
		`{"events":[` + one + `]}`, `{"events":[` + one + `,` + one + `],"proof":"0"}`, `{"events":[]}`,
		`{"events":{}}`, `{"events":[[[`, `{`, `[]`, `{"events":[{}]} {}`, `{"more":1,"events":[` + one + `]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		events, err := Unpack(raw)
		if err != nil {
			return
		}
		var bodies [][]byte
		for _, e := range events {
			body, err := json.Marshal(e)
			if err != nil {
				return // a time that JSON has no form for
			}
			bodies = append(bodies, body)
		}
		if again, err := Unpack(Pack(bodies)); err != nil || len(again) != len(events) || len(events) == 0 ||
			len(events) > MaxPacked {
			t.Errorf("%d events are read, and packed again %d, %v", len(events), len(again), err)
		}
	})
}

// same reports whether two texts are one JSON value, whatever their spaces and escapes.
func same(a, b json.RawMessage) bool {
	var x, y any
	da, db := json.NewDecoder(bytes.NewReader(a)), json.NewDecoder(bytes.NewReader(b))
	da.UseNumber()
	db.UseNumber()
	return da.Decode(&x) == nil && db.Decode(&y) == nil && reflect.DeepEqual(x, y)
}

// FuzzRecords: whoever has a worker's credential may write anything into a record. It is read or refused. A queued
// record that was read can be written, and what is written is read again as the same.
func FuzzRecords(f *testing.F) {
	for _, seed := range []string{
		`{"v":1,"attempt":1,"key":"k","run_id":"run_1","type":"start_session","session_id":"ses_1","agent_name":"a",` +
			`"parameters":{"a":[1]},"agent_blueprint":{}}`,
		`{"v":1,"status":"failed","error":{"error":"x","message":"y"},"result":{"result_type":"procedural",` +
			`"result_data":{"a":1},"exit_code":3},"events":7}`,
		`{"v":9223372036854775808,"timeout_seconds":-1,"max_attempts":9223372036854775808}`, `{"created_at":"x"}`,
		`{"v":2}`, `{`, `{"v":"1"}`, `{"result":{"result_text":"\ud800"}}`, `{"demands":[]}`, ` {"a":"\"}"}`,
		`{"v":1,"attempt":2,"created_at":"2026-01-31T12:00:00.5+23:59","demands":{"tags":["<x>"]},"depth":9,` +
			`"trace":{"traceparent":"p","tracestate":"s"},"asked":{"timeout_seconds":3},"payload":{"parts":[1]},` +
			`"output":{"schema":{"type":"object"}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		DecodeEnded(raw)
		q, err := DecodeQueued(raw, nil)
		if err != nil || !json.Valid(raw) {
			return
		}
		text, err := q.Encode()
		if err != nil {
			t.Fatalf("%s\nis read as %+v, and cannot be written: %v", raw, q, err)
		}
		again, err := DecodeQueued(text, nil)
		if err != nil {
			t.Fatalf("%s\nis written as %s\nand cannot be read again: %v", raw, text, err)
		}
		if twice, err := again.Encode(); err != nil || !same(text, twice) || again.ID != q.ID {
			t.Errorf("%s\nis written as %s\nand then as %s, %v", raw, text, twice, err)
		}
	})
}
