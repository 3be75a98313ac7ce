package audit

import (
	"reflect"
	"testing"
	"time"

	"ao/shared/strictjson"
)

// TestAnEntryIsWrittenAsEncodingJSONWritesIt fails when a field of an entry is forgotten where entries are written.
func TestAnEntryIsWrittenAsEncodingJSONWritesIt(t *testing.T) {
	t.Parallel()
	full := Entry{Actor: &Actor{Claimed: &Claim{}}}
	fill(reflect.ValueOf(&full).Elem())
	hostile := Entry{Time: time.Unix(1, 5).UTC(), Action: "run.create", Error: "\u202e\"<&>\x00\xff", Actor: &Actor{}}
	for name, e := range map[string]Entry{"full": full, "empty": {}, "hostile": hostile,
		"no claim": {Actor: &Actor{Claimed: &Claim{}}}} {
		want, err := strictjson.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.append([]byte("[")); string(got) != "["+string(want) {
			t.Errorf("%s: got %s, want [%s", name, got, want)
		}
	}
}

// fill gives every field a value that is not its zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1_700_000_000, 123_000_000).UTC()))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Pointer:
		fill(v.Elem())
	case reflect.String:
		v.SetString(v.Type().Name() + "é")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		v.SetInt(7)
	case reflect.Uint64:
		v.SetUint(8)
	default:
		panic("no value for " + v.Kind().String())
	}
}
