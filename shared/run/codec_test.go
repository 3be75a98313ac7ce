package run

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

func full() Queued {
	return Queued{V: 1, Attempt: 2, Key: "k", Spec: Spec{
		ID: "run_1", Type: Start, SessionID: "ses_1", Agent: `odd "name" é`, AgentType: Procedural, Mode: Sync,
		Parent: "ses_0", ProjectDir: "/a\\b",
		Demands: Demands{Hostname: "h", Tags: []string{"a", "b"}}, Owner: "o", Timeout: 300, TimeoutBy: "agent",
		CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
		Input: &Input{Parameters: json.RawMessage(`{"z":1,"a":"}\"{","n":12345678901234567890}`),
			Blueprint: json.RawMessage(`{"name":"x","command":"<&>"}`)},
	}}
}

func TestARecordIsReadAsItWasWritten(t *testing.T) {
	q := full()
	raw, err := q.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := DecodeQueued(raw, nil)
	if err != nil || !reflect.DeepEqual(back, q) {
		t.Errorf("got %+v %v from\n%s", back, err, raw)
	}
	var plain Queued
	if err := json.Unmarshal(raw, &plain); err != nil || !reflect.DeepEqual(plain, q) {
		t.Errorf("encoding/json reads %+v %v from\n%s", plain, err, raw)
	}
	large := full()
	large.Input, large.Body = nil, &Payload{Name: "run_1.in", Parts: 2, Size: 9, SHA256: "s"}
	raw, err = Accepted{V: 1, Spec: large.Spec}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err = DecodeQueued(raw, nil)
	if err != nil || !reflect.DeepEqual(back.Spec, large.Spec) {
		t.Errorf("got %+v %v from\n%s", back, err, raw)
	}
}

// TestEveryMemberIsRead fails when a member is added to the record that DecodeQueued does not know.
func TestEveryMemberIsRead(t *testing.T) {
	var set func(v reflect.Value)
	set = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Int, reflect.Int64:
			v.SetInt(7)
		case reflect.Slice:
			if v.Type() == reflect.TypeFor[json.RawMessage]() {
				v.SetBytes([]byte(`{"x":1}`))
				return
			}
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			set(v.Index(0))
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			set(v.Elem())
		case reflect.Struct:
			if v.Type() == reflect.TypeFor[time.Time]() {
				v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
				return
			}
			for i := range v.NumField() {
				if v.Type().Field(i).IsExported() && v.Field(i).Kind() != reflect.Interface {
					set(v.Field(i))
				}
			}
		}
	}
	var q Queued
	set(reflect.ValueOf(&q).Elem())
	raw, err := q.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if back, err := DecodeQueued(raw, nil); err != nil || !reflect.DeepEqual(back, q) {
		t.Errorf("got %+v %v\nwant %+v", back, err, q)
	}
	var e Ended
	set(reflect.ValueOf(&e).Elem())
	raw, err = json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var plain Ended
	if err := json.Unmarshal(raw, &plain); err != nil {
		t.Fatal(err)
	}
	if back, err := DecodeEnded(raw); err != nil || !reflect.DeepEqual(back, plain) {
		t.Errorf("got %+v %v\nwant %+v", back, err, plain)
	}
}

// What a worker writes as its result is JSON, or the record cannot be read: it goes into answers and records unchanged.
func TestAResultThatIsNoJSONIsNotRead(t *testing.T) {
	t.Parallel()
	for result, want := range map[string]bool{
		`null`: true, `{}`: true, `{"result_data":{"a":[1]},"exit_code":-1,"result_text":"a\nb"}`: true,
		`{"result_data":[}}`: false, `{"result_data":+1}`: false, `{"exit_code":+5}`: false,
		`{"exit_code":007}`: false, `{"exit_code":"5"}`: false,
		"{\"result_text\":\"a\nb\"}": false, `{"raw_output":5}`: false, `{"schema_validation":{]}`: false, `[]`: false,
	} {
		if e, err := DecodeEnded([]byte(`{"v":1,"status":"completed","result":` + result + `}`)); (err == nil) != want {
			t.Errorf("%s is read as %+v, %v", result, e.Result, err)
		}
	}
	for _, at := range []string{"2026-01-02T03:04:05+24:00", "9999-12-31T23:59:59-01:00",
		"0000-01-01T00:00:00+01:00", "0001-01-01T00:00:00+01:00"} {
		t1 := ParseTime([]byte(`"` + at + `"`))
		if _, err := (Ended{StartedAt: &t1}).Encode(); err != nil || t1.Location() != time.UTC {
			t.Errorf("%s: %v in %s", at, err, t1.Location())
		}
	}
}
