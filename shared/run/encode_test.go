package run

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"ao/shared/fault"
	"ao/shared/strictjson"
)

// texts are what strings may hold, harmless or not.
var texts = []string{"", "x", "run_1", `a "quoted" \ one`, "<&>", "é\u2028 ", "line\nline\t\x00", "\xff broken", "~",
	"\x7f"}

// fill sets every exported field to something of its type, or leaves it as it is.
func fill(r *rand.Rand, v reflect.Value) {
	switch v.Interface().(type) {
	case time.Time:
		zone := []*time.Location{time.UTC, time.FixedZone("", 19800), time.FixedZone("", -3600)}[r.IntN(3)]
		v.Set(reflect.ValueOf(time.Unix(r.Int64N(4e9), []int64{0, 1, 120e6, 999999999}[r.IntN(4)]).In(zone)))
		return
	case json.RawMessage:
		v.SetBytes([]byte([]string{`{"z":1,"a":"}\"{"}`, `[]`, `"a b"`, `12345678901234567890.10`,
			"{ \"a\" :\n[ 1 ]}", `"<&>é"`}[r.IntN(6)]))
		return
	case *fault.Fault:
		v.Set(reflect.ValueOf(fault.New(fault.Internal, "code", texts[r.IntN(len(texts))]).With("n", 7)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(texts[r.IntN(len(texts))])
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(r.IntN(5)))
	case reflect.Uint64:
		v.SetUint(r.Uint64() >> r.IntN(64))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(3), 3))
		for i := range v.Len() {
			fill(r, v.Index(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(r, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && r.IntN(4) > 0 {
				fill(r, v.Field(i))
			}
		}
	}
}

// Writing a record member by member gives the same as encoding/json for its struct, whatever that holds. A new member
// that Encode does not write fails this test.
func TestRecordsAreWrittenAsTheirStructsSay(t *testing.T) {
	t.Parallel()
	object := func(f func(*strictjson.Builder)) ([]byte, error) {
		o := strictjson.Build(nil)
		f(&o)
		return o.End()
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 4000 {
		var q Queued
		var a Accepted
		var c Claim
		var e Ended
		var v Run
		for _, into := range []any{&q, &a, &c, &e, &v} {
			fill(r, reflect.ValueOf(into).Elem())
		}
		for _, in := range []*Input{q.Input, a.Input} { // those are put in as they stand
			if in != nil {
				in.Parameters, in.Blueprint = compact(t, in.Parameters), compact(t, in.Blueprint)
			}
		}
		for _, tt := range []struct {
			what  any
			write func() ([]byte, error)
		}{
			{q, q.Encode}, {a, a.Encode}, {c, c.Encode}, {e, e.Encode},
			{&v, func() ([]byte, error) { return object(v.Write) }},
		} {
			got, err := tt.write()
			want, wrong := strictjson.Encode(tt.what)
			if err != nil || wrong != nil || !bytes.Equal(got, want) {
				t.Fatalf("%T is written as\n%s (%v), want\n%s (%v)", tt.what, got, err, want, wrong)
			}
		}
	}
}

func compact(t *testing.T, raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if len(raw) == 0 {
		return raw
	}
	if err := json.Compact(&b, raw); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestAResultThatIsNoJSONIsNotWritten(t *testing.T) {
	t.Parallel()
	for _, r := range []Result{{Data: json.RawMessage(`{"a":`)}, {Data: json.RawMessage(``)},
		{SchemaValidation: json.RawMessage(`x`)}, {Data: json.RawMessage("{}\n{}")}} {
		if raw, err := (Ended{Result: &r}).Encode(); err == nil {
			t.Errorf("written as %s", raw)
		}
	}
}
