package access

import (
	"regexp"
	"strings"
	"testing"
)

// FuzzParse: a token file that is accepted can be written line by line, and is read again as the same tokens. An error
// names the line, or the number of tokens before it, and shows no token that somebody wrote into the file.
func FuzzParse(f *testing.F) {
	token := regexp.MustCompile(`aot_[A-Z2-7]{26}`)
	hash := "sha256:" + strings.Repeat("0a", 32)
	f.Add([]byte("# tokens\nalice read,run " + hash + " created=2026-01-02T03:04:05Z " +
		"expires=2027-01-02T03:04:05+02:00\n\nbob admin " + hash))
	f.Add([]byte("alice read " + hash + "\nalice read " + hash))
	for _, line := range []string{"alice read %", "alice %", "% read x", "% alice read", "alice % " + hash,
		"% read " + hash, "alice read " + hash + " expires=%", "alice read " + hash + " %", "alice/% read " + hash,
		"alice read " + hash + "\nbob read,% " + hash} {
		f.Add([]byte(strings.ReplaceAll(line, "%", NewToken())))
	}
	f.Add([]byte("a b c d e f"))
	f.Add([]byte("a read " + hash + " created=0000-01-01T00:00:00Z"))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := parseTokens(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "line ") && !strings.HasPrefix(err.Error(), "after ") {
				t.Errorf("%q: %v names no line", text, err)
			}
			if token.MatchString(err.Error()) {
				t.Errorf("%q: the error shows a token: %v", text, err)
			}
			return
		}
		var lines []string
		for _, e := range all {
			lines = append(lines, e.Line())
		}
		again, err := parseTokens([]byte(strings.Join(lines, "\n")))
		if err != nil || len(again) != len(all) {
			t.Fatalf("%q is written as %q: %v", text, lines, err)
		}
		for i, e := range again {
			if e.Name != all[i].Name || e.Scope != all[i].Scope || e.Hash != all[i].Hash || e.Line() != lines[i] {
				t.Errorf("%q is read as %q", lines[i], e.Line())
			}
		}
	})
}
