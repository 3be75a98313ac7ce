package agent

import (
	"testing"

	"ao/shared/fault"
	"ao/shared/run"
)

func TestModels(t *testing.T) {
	for _, tt := range []struct {
		models Models
		model  string
		want   bool
	}{
		{nil, "any", true}, {Models{}, "any", false}, {Models{}, "", true},
		{Models{"claude-*"}, "claude-opus-4-8", true}, {Models{"claude-*"}, "gpt-5", false},
		{Models{"claude-*"}, "my-claude-x", false},
		{Models{"opus", "sonnet"}, "sonnet", true}, {Models{"opus"}, "opus-1", false},
		{Models{"*/llama-*-instruct"}, "meta/llama-3-instruct", true}, {Models{"*/llama-*-instruct"}, "meta/llama-3",
			false}, {Models{"a*a"}, "a", false}, {Models{"*"}, "x", true},
	} {
		if got := tt.models.Allow(tt.model); got != tt.want {
			t.Errorf("%q allows %q: %v", tt.models, tt.model, got)
		}
	}
}

func TestModelOfABlueprint(t *testing.T) {
	for body, field := range map[string]string{
		`{"name":"a","model":"claude-opus-4-8","max_turns":3}`:         "",
		`{"name":"a","model":"meta/llama 3:8b"}`:                       "",
		`{"name":"a","model":"--dangerous"}`:                           "model",
		`{"name":"a","model":"a\nb"}`:                                  "model",
		`{"name":"a","model":" a"}`:                                    "model",
		`{"name":"a","max_turns":0}`:                                   "max_turns",
		`{"name":"a","max_turns":-1}`:                                  "max_turns",
		`{"name":"a","max_turns":10001}`:                               "max_turns",
		`{"name":"a","type":"procedural","command":"x","model":"m"}`:   "model",
		`{"name":"a","type":"procedural","command":"x","max_turns":3}`: "max_turns",
	} {
		b, err := Read([]byte(body), run.Autonomous)
		got := ""
		if err != nil {
			for _, f := range fault.Of(err).Fields {
				if f.Name == "field" {
					got, _ = f.Value.(string)
				}
			}
		}
		if got != field || err == nil && b.Model == "" {
			t.Errorf("%s: %v", body, err)
		}
	}
}
