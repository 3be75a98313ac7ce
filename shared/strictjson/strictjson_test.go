package strictjson

import (
	"encoding/json"
	"strings"
	"testing"
)

type inner struct {
	Host string   `json:"hostname"`
	Tags []string `json:"tags"`
}

type outer struct {
	Name   string          `json:"name"`
	Raw    json.RawMessage `json:"raw"`
	Inner  inner           `json:"inner"`
	Maybe  *inner          `json:"maybe"`
	Many   []inner         `json:"many"`
	Count  *int            `json:"count"`
	Switch bool            `json:"switch"`
}

func TestDecodeRefusesByName(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{"name":"a"`, `The body is not JSON: it ends too early`},
		{``, `The body is not JSON: it ends too early`},
		{`{"name":"a"} x`, `something follows it`},
		{`{"name":"a"}{}`, `something follows it`},
		{`[]`, `must be a JSON object`},
		{`null`, `must be a JSON object`},
		{`{"nam":1}`, `Unknown field "nam"; known are name, raw`},
		{`{"Name":"a"}`, `Unknown field "Name"`},
		{`{"inner":{"hostnam":"x"}}`, `Unknown field "inner.hostnam"; known are hostname, tags`},
		{`{"maybe":{"x":1}}`, `Unknown field "maybe.x"`},
		{`{"many":[{},{"y":1}]}`, `Unknown field "many[1].y"`},
		{`{"name":"a","name":"b"}`, `has the key "name" twice`},
		{`{"raw":{"a":{"b":1,"b":2}}}`, `$.raw.a has the key "b" twice`},
		{`{"name":5}`, `name must be a string, got 5`},
		{`{"switch":"yes"}`, `switch must be true or false, got "yes"`},
		{`{"count":1.5}`, `count must be a whole number, got 1.5`},
		{`{"inner":[]}`, `inner must be a JSON object`},
		{`{"inner":{"tags":"x"}}`, `inner.tags must be a list of strings, got "x"`},
		{`{"raw":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`, `nests deeper than 64 levels`},
		{"{\"name\":\"\x00\"}", `The body is not JSON: unexpected`},
		{`{"name":"a\ud800b"}`, `name has half of a surrogate pair`},
		{`{"inner":{"tags":["\udc00"]}}`, `inner.tags has half of a surrogate pair`},
		{`{"count":"3"}`, `count must be a whole number, got "3"`},
		{`{"count":3.0000000000000000001}`, `count must be a whole number`},
		{`{"count":1e-400}`, `count must be a whole number`},
		{`{"count":1e400}`, `count must be a whole number`},
	} {
		t.Run(tt.in[:min(len(tt.in), 40)], func(t *testing.T) {
			var o outer
			err := Decode([]byte(tt.in), &o)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestDecodeTakesWholeNumbersInEveryForm: many languages write 60 as 60.0.
func TestDecodeTakesWholeNumbersInEveryForm(t *testing.T) {
	for in, want := range map[string]int{`60`: 60, `60.0`: 60, `-6.00`: -6, `6e1`: 60, `0.6E2`: 60, `0.0`: 0,
		`123456789012.0`: 123456789012} {
		var o outer
		if err := Decode([]byte(`{"count":`+in+`}`), &o); err != nil || *o.Count != want {
			t.Errorf("%s: got %v, %v", in, o.Count, err)
		}
	}
}

func TestDecodeKeepsWhatWasSent(t *testing.T) {
	var o outer
	in := `{"name":"é\ud83d\ude00","raw":{"z":1e400,"a":12345678901234567890,"m":0.10,"half":"\ud800"},"inner":{` +
		`"tags":["x"]},` +
		`"maybe":{"hostname":"h"},"count":3,"many":null}`
	if err := Decode([]byte(in), &o); err != nil {
		t.Fatal(err)
	}
	if got, want := string(o.Raw), `{"z":1e400,"a":12345678901234567890,"m":0.10,"half":"\ud800"}`; got != want {
		t.Errorf("raw is %s, want %s", got, want)
	}
	if o.Name != "é😀" || o.Inner.Tags[0] != "x" || o.Maybe.Host != "h" || *o.Count != 3 || o.Many != nil {
		t.Errorf("got %+v", o)
	}
}

func TestMembersKeepTheirOrder(t *testing.T) {
	in := `{"z":1,"a":{"y":2,"b":3},"<&>":[1.0,2]}`
	m, err := Members([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(Object(m)); got != in {
		t.Errorf("got %s, want %s", got, in)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"name":"a","raw":[1,{"b":null}],"inner":{"tags":["x"]}}`))
	f.Add([]byte(`{"many":[{"hostname":"a"}],"count":0}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		var o outer
		if err := Decode(in, &o); err == nil && !json.Valid(in) {
			t.Errorf("accepted what is not JSON: %q", in)
		}
	})
}

// FuzzValid holds Valid against encoding/json: what one of them stored, the other has to read.
func FuzzValid(f *testing.F) {
	for _, s := range []string{`{"a":1,"a":[0.10,1e400,-0,null]}`, `"\ud800"`, "\"\xff\"", `[1,]`, `01`, `{} x`, ``,
		` true `, "\"\x00\"", `"\x"`,
		`{"\ud800":1,"\ud801":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if got, want := Valid(in), json.Valid(in); got != want {
			t.Errorf("%q: got %v, encoding/json says %v", in, got, want)
		}
		if err := Check(in); err == nil && !json.Valid(in) {
			t.Errorf("%q is taken, and is no JSON", in)
		}
	})
}

func TestJSONOfOthersIsPutOnOneLine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, raw, checked string }{
		{`{"a": 1}`, `{"a":1}`, `{"a": 1}`}, // a line is one line
		{"{\"a\":\n1}", `{"a":1}`, `{"a":1}`},
		{`"two words"`, `"two words"`, `"two words"`},
		{`{"a":`, ``, `{"a":`}, // what was checked is not looked at again
		{`{"a": `, ``, `{"a": `},
	} {
		for want, write := range map[string]func(*Builder){
			tt.raw:     func(o *Builder) { o.Raw("x", json.RawMessage(tt.in)) },
			tt.checked: func(o *Builder) { o.StoredRaw("x", json.RawMessage(tt.in)) },
		} {
			o := Build(nil)
			write(&o)
			got, err := o.End()
			if want == "" && err == nil || want != "" && string(got) != `{"x":`+want+`}` {
				t.Errorf("%q: got %s, %v, want %s", tt.in, got, err, want)
			}
		}
	}
	o := Build(nil)
	o.StoredRaw("x", nil)
	if got, err := o.End(); err != nil || string(got) != `{"x":null}` {
		t.Errorf("none: got %s, %v", got, err)
	}
}
