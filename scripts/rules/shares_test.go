package rules

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ao/shared/share"
)

// What stands around the table of shares in the document on security.
const (
	sharesBegin = "<!-- made from shared/share/table.go: AO_WRITE_DOCS=yes go test ./scripts/rules " +
		"-run TestShares -->\n"
	sharesEnd = "<!-- end of the table of shares -->\n"
)

// TestShares: security.md has the table of shares, and each of its rows names tests that exist.
// AO_WRITE_DOCS=yes go test ./scripts/rules -run TestShares rewrites it.
func TestShares(t *testing.T) {
	h, err := Read(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	tests := testsOf(h)
	for _, r := range share.Table {
		if len(r.Tests) == 0 {
			t.Errorf("%s: no test takes all of it", r.Resource)
		}
		for _, at := range r.Tests {
			if !tests[at] {
				t.Errorf("%s: there is no test %s", r.Resource, at)
			}
		}
		if r.Resource == "" || r.Counted == "" || len(r.Whose) == 0 || r.Share == "" || r.Kept == "" || r.Told == "" {
			t.Errorf("%s: a column is empty: %+v", r.Resource, r)
		}
	}
	path := filepath.Join("..", "..", "shared", "docs", "security.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(page), sharesBegin)
	have, after, ends := strings.Cut(rest, sharesEnd)
	if !begins || !ends {
		t.Fatalf("%s has no place for the table of shares", path)
	}
	want := sharesTable()
	switch {
	case have == want:
	case os.Getenv("AO_WRITE_DOCS") != "":
		if err := os.WriteFile(path, []byte(before+sharesBegin+want+sharesEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Error("security.md does not match shared/share/table.go; rewrite it: AO_WRITE_DOCS=yes go test " +
			"./scripts/rules -run TestShares")
	}
}

// sharesTable returns share.Table as markdown.
func sharesTable() string {
	var b strings.Builder
	b.WriteString("| what runs out | counted | whose share | how much | kept | a refused one is told | shown by |\n" +
		"|---|---|---|---|---|---|---|\n")
	for _, r := range share.Table {
		var whose, tests []string
		for _, o := range r.Whose {
			whose = append(whose, string(o))
		}
		for _, at := range r.Tests {
			tests = append(tests, "`"+at+"`")
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", r.Resource, r.Counted, strings.Join(whose, ", "),
			r.Share, r.Kept, r.Told, strings.Join(tests, ", "))
	}
	return b.String()
}
