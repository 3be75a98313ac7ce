package e2e

import (
	"cmp"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ao/scripts/reference"
)

// TestReference: shared/docs/reference/settings.md matches the help of the programs.
// AO_WRITE_DOCS=yes go test ./scripts/e2e -run TestReference rewrites it.
func TestReference(t *testing.T) {
	t.Parallel()
	reference.Check(t, "e2e", "settings.md", "shared/config/table.go, by way of the programs' --help", settingsPage(t))
}

// row is a setting with the programs that have it.
type row struct {
	flags, env, def, doc string
	programs             []string
}

var columns = regexp.MustCompile(`  +`)

// help returns a program's help.
func help(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(filepath.Join(bin, program), append(args, "--help")...).Output()
	if err != nil {
		t.Fatalf("%s --help: %v", program, err)
	}
	return string(out)
}

// settingsPage makes the page of settings.
func settingsPage(t *testing.T) string {
	rows, order := map[string]*row{}, []string(nil)
	for _, program := range []string{"coordinator", "worker"} {
		_, table, ok := strings.Cut(help(t, program), "MEANING\n")
		if !ok {
			t.Fatalf("%s --help has no table", program)
		}
		for line := range strings.Lines(table) {
			c := columns.Split(strings.TrimSpace(line), 4)
			if len(c) != 4 {
				t.Fatalf("%s --help: %q has not four columns", program, line)
			}
			if rows[c[1]] == nil {
				rows[c[1]], order = &row{flags: c[0], env: c[1], def: c[2], doc: c[3]}, append(order, c[1])
			}
			rows[c[1]].programs = append(rows[c[1]].programs, program)
		}
	}
	slices.SortStableFunc(order, func(a, b string) int {
		return cmp.Compare(strings.Join(rows[a].programs, " "), strings.Join(rows[b].programs, " "))
	})
	var b strings.Builder
	b.WriteString("# Settings\n\nEach is an environment variable and a flag. `ao settings` shows those of a " +
		"coordinator, with their sources. `scripts/up` and `ao up` (one process) know all of them.\n\n" +
		"- A flag beats its environment variable: `RUN_LEASE=30 coordinator --run-lease 20` is 20 s.\n" +
		"- A variable that is set to nothing counts as not set.\n" +
		"- Durations are seconds, or like `1m30s`; sizes are bytes, or like `16MiB`.\n" +
		"- A value that cannot be read stops the program with the variable's name, the value and an example.\n" +
		"- A variable whose name is one typing error away from one of these is warned of.\n")
	programs := ""
	for _, name := range order {
		r := rows[name]
		if p := strings.Join(r.programs, " and "); p != programs {
			programs = p
			fmt.Fprintf(&b, "\n## %s\n| variable | flag | default | |\n|---|---|---|---|\n", strings.ToUpper(p[:1])+
				p[1:])
		}
		def := reference.Code(r.def)
		if r.def == "-" {
			def = ""
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", r.env, r.flags, def, strings.ReplaceAll(r.doc, "|", `\|`))
	}
	b.WriteString("\n## The command line `ao`\n```\n" + strings.TrimSpace(help(t, "ao")) + "\n```\n")
	return b.String()
}
