package executor

import (
	"bytes"
	"testing"

	"ao/shared/fault"
)

// FuzzLine: a line that an executor writes is a message of the protocol (2.2), text of its own, or refused with a
// reason. What was read can be written, and is read again as the same.
func FuzzLine(f *testing.F) {
	for _, seed := range []string{
		`{"type":"event","event_type":"message","role":"assistant","content":[{"type":"text","text":"x"}]}`,
		`{"type":"bind","executor_session_id":"s"}`,
		`{"type":"result","result_text":"x"}`, `{"type":"result","result_data":{"a":1}}`,
		`{"type":"result","error":{"error":"e","message":"m"}}`,
		`{"type":"turn_complete","run_id":"r","result":"x"}`, `{"type":"turn_complete","result":{"result_data":null}}`,
		`{"type":"turn_failed","error":{"message":"m"}}`,
		`plain`, `{"type":5}`, "{\"type\":\"result\",\"result_text\":\"\xff\"}",
		`{"type":"event","event_type":"pre_tool","tool_name":"t","tool_input":[]}`, `{"type":"result"`,
		`{"type":"result","result_text":"a","result_data":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, ok, err := ReadLine(raw)
		if !ok {
			if err != nil {
				t.Errorf("it is no line, and wrong: %v", err)
			}
			return
		}
		if err != nil {
			if fault.Of(err).Message == "" {
				t.Errorf("refused without a word: %v", err)
			}
			return
		}
		text, err := l.MarshalJSON()
		if err != nil {
			t.Fatalf("%s cannot be written: %v", raw, err)
		}
		again, ok, err := ReadLine(text)
		if !ok || err != nil || again.Type != l.Type || again.EventType != l.EventType || again.Session != l.Session ||
			!bytes.Equal(again.Body, l.Body) {
			t.Errorf("%s\nis written as %s\nand read as %+v, %v", raw, text, again, err)
		}
	})
}

// FuzzWorkerInput: what a worker sends to a program's Go code: the document, and the lines after it.
func FuzzWorkerInput(f *testing.F) {
	for _, seed := range []string{
		`{"schema_version":"2.2","mode":"start","session_id":"ses_1","run_id":"run_1","parameters":{},` +
			`"project_dir":"/","agent_name":"a","agent_blueprint":{},"executor_config":{}}`,
		`{"type":"turn","mode":"resume","run_id":"run_2","parameters":{"prompt":"p"},"prompt":"p"}`,
		`{"type":"shutdown"}`, `{"schema_version":"9"}`, `{}`, `null`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if v, err := ReadInvocation(raw); err == nil {
			if text, err := v.Encode(); err == nil {
				if again, err := ReadInvocation(text); err != nil || again.RunID != v.RunID {
					t.Errorf("%s\nis written as %s\nand read as %+v, %v", raw, text, again, err)
				}
			}
		}
		if v, err := ReadTurn(raw); err == nil {
			if _, err := v.Encode(); err != nil {
				t.Errorf("%s cannot be written: %v", raw, err)
			}
		}
	})
}
