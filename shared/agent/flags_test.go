package agent

import (
	"encoding/json"
	"fmt"
	"testing"

	"ao/shared/fault"
)

func TestFlags(t *testing.T) {
	for _, tt := range []struct{ params, want string }{
		{`{}`, `[]`},
		{``, `[]`},
		{` null `, `[]`},
		{`{"verbose":true,"quiet":false,"nothing":null}`, `["--verbose"]`},
		{`{"z":"1","a":"2","m":"3"}`, `["--z" "1" "--a" "2" "--m" "3"]`},
		{`{"tags":["news","tech"]}`, `["--tags" "news,tech"]`},
		{`{"tags":[]}`, `["--tags" ""]`},
		{`{"s":""}`, `["--s" ""]`},
		{`{"n":[1e400,0.10,true,null,"x y",{"b":1.0, "a":[2]}]}`,
			`["--n" "1e400,0.10,true,null,x y,{\"b\":1.0,\"a\":[2]}"]`},
		{`{"a":1e400,"b":0.10,"c":12345678901234567890,"d":1E+2}`,
			`["--a" "1e400" "--b" "0.10" "--c" "12345678901234567890" "--d" "1E+2"]`},
		{`{"n":-5,"s":"-rf","l":["-a","b"],"m":[-1]}`, `["--n=-5" "--s=-rf" "--l=-a,b" "--m=-1"]`},
		{`{"s":"true","f":"false"}`, `["--s" "true" "--f" "false"]`},
		{`{"o":{ "z" : 1.50, "a" : "<&>" }}`, `["--o" "{\"z\":1.50,\"a\":\"<&>\"}"]`},
		{`{"s":"$(rm -rf /); ` + "`x`" + ` 'q' \"d\" \n*"}`, `["--s" "$(rm -rf /); ` + "`x`" + ` 'q' \"d\" \n*"]`},
		{`{"größe":"é"}`, `["--größe" "é"]`},
		{`{"":1}`, `refused "parameters.": parameter "" cannot be passed to a command: the key is ` +
			`empty: give it a name`},
		{`{"a=b":1}`, `refused "parameters.a=b": parameter "a=b" cannot be passed to a command: the key contains ` +
			`'=': use another key`},
		{`{"a b":1}`, `refused "parameters.a b": parameter "a b" cannot be passed to a command: the key contains ` +
			`white space or a control character: use another key`},
		{`{"a\u0000":1}`, `refused "parameters.a\x00": parameter "a\x00" cannot be passed to a command: the key ` +
			`contains white space or a control character: use another key`},
		{`{"-x":false}`, `refused "parameters.-x": parameter "-x" cannot be passed to a command: the key begins with ` +
			`'-': leave that out, it is put before every key`},
		{`{"k":"a\u0000b"}`,
			`refused "parameters.k": parameter "k" cannot be passed to a command: its value contains ` +
				`a NUL, which no command line can hold: take it out`},
		{`{"k":["a\u0000b"]}`, `refused "parameters.k": parameter "k" cannot be passed to a command: its value ` +
			`contains a NUL, which no command line can hold: take it out`},
		{`{"k":"a\ud83d"}`, `refused "parameters.k": parameter "k" cannot be passed to a command: it has half of a ` +
			`surrogate pair, which is no character: send the whole character`},
		{`{"k":["\ude00"]}`, `refused "parameters.k": parameter "k" cannot be passed to a command: item 0: it has ` +
			`half of a surrogate pair, which is no character: send the whole character`},
		{`[1]`, `refused "parameters": parameters must be a JSON object`},
	} {
		t.Run(tt.params, func(t *testing.T) {
			args, err := Flags(json.RawMessage(tt.params))
			got := fmt.Sprintf("%q", args)
			if err != nil {
				got = fmt.Sprintf("refused %q: %v", fault.Of(err).Fields[0].Value, err)
				if fault.KindOf(err) != fault.Invalid {
					t.Errorf("kind %v", fault.KindOf(err))
				}
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func FuzzFlags(f *testing.F) {
	f.Add(`{"a":[1,"-",{}],"b":"x"}`)
	f.Fuzz(func(t *testing.T, params string) {
		if !json.Valid([]byte(params)) {
			return
		}
		args, err := Flags(json.RawMessage(params))
		if err != nil {
			return
		}
		for i, a := range args { // a value never looks like a flag
			if i > 0 && len(a) > 0 && a[0] == '-' && (len(a) < 3 || a[:2] != "--") {
				t.Errorf("%q in %q", a, args)
			}
		}
	})
}
