// Package reference writes the pages of shared/docs/reference, which tests make from tables in the code.
package reference

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Check fails the test if a page of shared/docs/reference is not what was made from a table. With AO_WRITE_DOCS set
// it writes the page. folder is that of the test, below scripts.
func Check(t testing.TB, folder, page, table, body string) {
	t.Helper()
	command := "AO_WRITE_DOCS=yes go test ./scripts/" + folder + " -run TestReference"
	want := fmt.Sprintf("<!-- Made from %s. After a change there: %s -->\n%s\n", table, command,
		strings.TrimSpace(body))
	path := filepath.Join("..", "..", "shared", "docs", "reference", page)
	if os.Getenv("AO_WRITE_DOCS") != "" {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil || string(have) != want {
		t.Errorf("shared/docs/reference/%s does not match %s (%v); rewrite it: %s", page, table, err, command)
	}
}

// Table returns a table in markdown.
func Table(head []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) {
		for _, c := range cells {
			c = strings.ReplaceAll(strings.Join(strings.Fields(c), " "), "|", `\|`)
			b.WriteString("| " + c + " ")
		}
		b.WriteString("|\n")
	}
	line(head)
	b.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	for _, r := range rows {
		line(r)
	}
	return b.String()
}

// Code returns a name as code; empty stays empty.
func Code(name string) string {
	if name == "" {
		return ""
	}
	return "`" + name + "`"
}

// Codes returns names as code, with commas between them.
func Codes(names []string) string {
	var all []string
	for _, n := range names {
		all = append(all, Code(n))
	}
	return strings.Join(all, ", ")
}
