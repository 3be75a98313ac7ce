package serve_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ao/coordinator/agents"
	"ao/shared/agent"
)

// answeredMembers returns the JSON names of what answers say of an agent beyond its definition.
func answeredMembers() (names []string) {
	for f := range reflect.TypeFor[agents.View]().Fields() {
		if f.Type != reflect.TypeFor[agent.Blueprint]() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}

// TestAnswersAreDefinitions: who sends the answer of an agent back as a definition is not refused for what only answers
// have. The dashboard leaves it out of what it saves and copies.
func TestAnswersAreDefinitions(t *testing.T) {
	t.Parallel()
	s := start(t)
	const module = "../dashboard/ui/lib/agents.js"
	text, err := os.ReadFile(module)
	if err != nil {
		t.Fatal(err)
	}
	set := regexp.MustCompile(`const answered = new Set\(\[([^\]]+)\]\)`).FindSubmatch(text)
	if set == nil {
		t.Fatalf("%s has no set of what only answers have", module)
	}
	left := strings.Split(string(set[1]), ", ")
	all := answeredMembers()
	if !slices.Contains(all, "agent_hash") {
		t.Fatalf("the members of an answer are %q", all)
	}
	for _, name := range all {
		if !slices.Contains(left, `"`+name+`"`) {
			t.Errorf("%s would send %s back: add it to answered", module, name)
		}
		if g := s.post("/agents/preview", `{"definition":{"name":"x","`+name+`":1}}`); g.status != 200 {
			t.Errorf("add %s to ignoredMembers of coordinator/preview: %s", name, g.body)
		}
	}
}
