package schema_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ao/shared/schema"
)

// The official suite for draft-07 lies in testdata/draft7, as published. group is one of its schemas with what it
// should say of some values.
type group struct {
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	Tests       []struct {
		Description string          `json:"description"`
		Data        json.RawMessage `json:"data"`
		Valid       bool            `json:"valid"`
	} `json:"tests"`
}

func groups(t testing.TB, file string) []group {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var gs []group
	if err := json.Unmarshal(raw, &gs); err != nil {
		t.Fatal(file, err)
	}
	return gs
}

func suiteFiles(t testing.TB, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "draft7", pattern))
	if err != nil || len(files) == 0 {
		t.Fatal("the suite is missing", err)
	}
	return files
}

// TestRequiredSuite: every required test that needs no other document.
func TestRequiredSuite(t *testing.T) {
	ran := 0
	for _, file := range suiteFiles(t, "*.json") {
		if filepath.Base(file) == "refRemote.json" {
			continue
		}
		for _, g := range groups(t, file) {
			s, err := schema.Compile(g.Schema)
			if err != nil {
				t.Errorf("%s: %s: %v", file, g.Description, err)
				continue
			}
			for _, tt := range g.Tests {
				ran++
				if got := s.Check(tt.Data); (len(got) == 0) != tt.Valid {
					t.Errorf("%s: %s: %s: valid %t, got %v", file, g.Description, tt.Description, tt.Valid, got)
				}
			}
		}
	}
	if ran != 904 {
		t.Errorf("%d tests, the suite has 904", ran)
	}
}

// TestRemoteReferencesAreRefused: what would have to be fetched does not compile, and says why.
func TestRemoteReferencesAreRefused(t *testing.T) {
	for _, g := range groups(t, filepath.Join("testdata", "draft7", "refRemote.json")) {
		_, err := schema.Compile(g.Schema)
		if err == nil || !strings.Contains(err.Error(), "nothing is fetched") {
			t.Errorf("%s: %v", g.Description, err)
		}
	}
}

// differ is where we differ from the optional suite, and why.
var differ = map[string]string{
	"content: validation of string-encoded content based on media type: an invalid JSON document":             annotation,
	"content: validation of binary string-encoding: an invalid base64 string (% is not a valid character)":    annotation,
	"content: validation of binary-encoded media type documents: a validly-encoded invalid JSON document":     annotation,
	"content: validation of binary-encoded media type documents: an invalid base64 string that is valid JSON": annotation,
	"cross-draft: refs to future drafts are processed as future drafts":                                       "needs a document from outside; nothing is fetched",
}

const annotation = "contentEncoding and contentMediaType describe, they do not assert: the contract " +
	"asks for format only"

func TestOptionalSuite(t *testing.T) {
	unused := map[string]string{}
	for k, v := range differ {
		unused[k] = v
	}
	files := append(suiteFiles(t, "optional/*.json"), suiteFiles(t, "optional/format/*.json")...)
	for _, file := range files {
		name := strings.TrimSuffix(
			filepath.ToSlash(strings.TrimPrefix(file, filepath.Join("testdata", "draft7", "optional")+"/")), ".json")
		for _, g := range groups(t, file) {
			s, err := schema.Compile(g.Schema)
			if err != nil {
				if key := name + ": " + g.Description; differ[key] == "" {
					t.Errorf("%s: %v", key, err)
				} else {
					delete(unused, key)
				}
				continue
			}
			for _, tt := range g.Tests {
				got := s.Check(tt.Data)
				if (len(got) == 0) == tt.Valid {
					continue
				}
				if key := name + ": " + g.Description + ": " + tt.Description; differ[key] == "" {
					t.Errorf("%s: %s: valid %t, got %v", key, tt.Data, tt.Valid, got)
				} else {
					delete(unused, key)
				}
			}
		}
	}
	for key := range unused {
		t.Errorf("%s: listed as a difference, but there is none", key)
	}
}
