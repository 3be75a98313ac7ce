// Command mutations breaks the product one line at a time, and reports which seed of scripts/simulation notices.
// The sources stay as they are: the compiler gets an overlay. Run it in the repository's root:
//
//	go run ./scripts/mutations          # prints the table
//	go run ./scripts/mutations -write   # writes it into scripts/mutations/README.md
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// page has the table between two lines.
const (
	page  = "scripts/mutations/README.md"
	begin = "<!-- mutations -->\n"
	end   = "<!-- /mutations -->\n"
)

func main() {
	only := flag.String("only", "", "try mutations whose name contains this")
	seeds := flag.Int("seeds", 200, "how many seeds each mutation gets")
	write := flag.Bool("write", false, "write the table into "+page)
	flag.Parse()
	table, missed, err := try(*only, *seeds)
	if err == nil && *write {
		err = save(table)
	}
	fmt.Print(table)
	if err != nil || missed > 0 {
		fmt.Fprintf(os.Stderr, "mutations: %d not noticed, error: %v\n", missed, err)
		os.Exit(1)
	}
}

// try builds and runs the simulation with each mutation.
func try(only string, seeds int) (table string, missed int, err error) {
	dir, err := os.MkdirTemp("", "mutations")
	if err != nil {
		return "", 0, err
	}
	defer os.RemoveAll(dir)
	table = "| broken line of | what it does | noticed by |\n|---|---|---|\n"
	for _, m := range mutations {
		if !strings.Contains(m.file+" "+m.does, only) {
			continue
		}
		found, err := m.try(dir, seeds)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %s: %v\n", m.file, m.does, err)
			found = ""
		}
		if found == "" {
			missed++
			found = "**nothing**"
		}
		table += fmt.Sprintf("| `%s` | %s | %s |\n", m.file, m.does, found)
		fmt.Fprintf(os.Stderr, "%-50s %-60s %s\n", m.file, m.does, found)
	}
	return table, missed, nil
}

var noticed = regexp.MustCompile(`(seed \d+|\w+\.txt): [0-9a-z.]+: (.*)`)

// try returns the seed that notices the mutation, and what it says; "": none does.
func (m mutation) try(dir string, seeds int) (string, error) {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return "", fmt.Errorf("%q is there %d times; it must be there once", m.old, n)
	}
	at, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	broken, overlay := filepath.Join(dir, "broken.go"), filepath.Join(dir, "overlay.json")
	replaced, err := json.Marshal(map[string]map[string]string{"Replace": {at: broken}})
	if err != nil {
		return "", err
	}
	for name, body := range map[string][]byte{overlay: replaced,
		broken: []byte(strings.Replace(string(source), m.old, m.new, 1))} {
		if err := os.WriteFile(name, body, 0o600); err != nil {
			return "", err
		}
	}
	program := filepath.Join(dir, "simulation.test")
	build := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", program, "./scripts/simulation")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	run := exec.Command(program, "-test.run", "TestSeeds|TestKeptStories", "-test.v", "-test.timeout", "10m",
		"-sim.for", "5m", "-sim.shrink=false", fmt.Sprintf("-sim.seeds=%d", seeds))
	run.Env = append(os.Environ(), "GOMAXPROCS=1")
	out, err := run.CombinedOutput()
	if found := noticed.FindStringSubmatch(string(out)); found != nil {
		return found[1] + ": " + kindOf(found[2]), nil
	}
	if err != nil { // a deadlock or a panic
		return "a crash", nil
	}
	return "", nil
}

var names = regexp.MustCompile(`(run|ses)_[0-9a-z]+`)

// kindOf returns the beginning of what the simulation says, without names.
func kindOf(text string) string {
	text = names.ReplaceAllString(text, "$1")
	if len(text) > 70 {
		text = text[:70] + "…"
	}
	return strings.ReplaceAll(text, "|", "/")
}

// save writes the table into the page.
func save(table string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, also := strings.Cut(rest, end)
	if !ok || !also {
		return fmt.Errorf("%s has no place for the table", page)
	}
	return os.WriteFile(page, []byte(head+begin+table+end+tail), 0o644)
}
