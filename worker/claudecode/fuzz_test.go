package claudecode

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"ao/shared/executor"
	"ao/shared/run"
	"ao/worker/process"
)

// FuzzStream: whatever claude prints (stream-json), every event is an object of a known kind. The turn is completed
// with a result, failed with a code and a message, or stopped.
func FuzzStream(f *testing.F) {
	files, _ := filepath.Glob("testdata/*/*.jsonl")
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, 0)
	}
	f.Add([]byte(`{"type":"result","subtype":"success","is_error":false,"result":"ok"}`), 1)
	f.Add([]byte(`{"type":"assistant","message":{"content":[{"type":"tool_use","id":"1","name":"x","input":[]}]}}`+"\n"+
		`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"1","content":{"a":1}}]}}`), 143)
	f.Add([]byte(`{"type":"system","subtype":"api_retry","attempt":1,"retry_delay_ms":1e300}`+"\nplain\n\xff"), 1)
	f.Fuzz(func(t *testing.T, text []byte, code int) {
		host := executor.Host{Emit: func(kind string, body json.RawMessage) {
			if !json.Valid(body) || len(body) == 0 || body[0] != '{' || kind == "" {
				t.Errorf("a %q is reported as %q", kind, body)
			}
		}}
		s := stream{host: host, stopped: t.Context().Err, onStarted: func() {}, kill: func() {}, maxLine: maxLine,
			exit: exitWatch{delay: exitDelay, taskWait: exitDelay, kill: func() {}}}
		for line := range bytes.Lines(text) {
			s.onLine(bytes.TrimRight(line, "\n"))
		}
		o := s.outcome(context.Background(), executor.Invocation{Mode: executor.Start},
			process.Exit{Started: true, Code: code})
		switch {
		case o.Status == run.Completed && o.Result != nil, o.Status == run.Stopped:
		case o.Status == run.Failed && o.Error != nil && o.Error.Code != "" && o.Error.Message != "":
		default:
			t.Errorf("the outcome is %+v", o)
		}
		if o.Error != nil {
			if _, err := json.Marshal(o.Error); err != nil {
				t.Error(err)
			}
		}
	})
}
