package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var block = regexp.MustCompile("(?s)```([a-z]+)\n(.*?)\n```")

// TestClientSnippets: the programs of shared/docs/clients.md do what they are said to do, and say what is wrong.
func TestClientSnippets(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root(), "shared", "docs", "clients.md"))
	if err != nil {
		t.Fatal(err)
	}
	programs := map[string]string{}
	for _, m := range block.FindAllStringSubmatch(string(page), -1) {
		if programs[m[1]] == "" { // the first of a language is the whole program
			programs[m[1]] = m[2]
		}
	}
	s := up(t)
	s.agent("text-stats", `echo '{"words":42}'`, "")
	s.worker()
	for _, tt := range []struct {
		language, file string
		with           []string
	}{
		{"sh", "client.sh", []string{"sh"}},
		{"python", "client.py", []string{"python3"}},
		{"typescript", "client.mjs", []string{"node"}},
		{"go", "client.go", []string{"go", "run"}},
	} {
		t.Run(tt.language, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(tt.with[0]); err != nil {
				t.Skipf("there is no %s here", tt.with[0])
			}
			if programs[tt.language] == "" {
				t.Fatal("clients.md has no such program")
			}
			dir := t.TempDir()
			path := filepath.Join(dir, tt.file)
			for _, agent := range []string{"text-stats", "nobody"} {
				program := strings.ReplaceAll(programs[tt.language], "text-stats", agent)
				if err := os.WriteFile(path, []byte(program), 0o644); err != nil {
					t.Fatal(err)
				}
				c := exec.Command(tt.with[0], append(tt.with[1:len(tt.with):len(tt.with)], path)...)
				c.Dir, c.Env = dir, append(os.Environ(), "AO_URL="+s.url)
				out, err := c.CombinedOutput()
				switch {
				case agent == "nobody" && err == nil:
					t.Errorf("an agent that is not there, and it ends well: %s", out)
				case agent == "nobody" && !strings.Contains(string(out), `nobody`):
					t.Errorf("it does not say what is wrong: %s", out)
				case agent != "nobody" && err != nil:
					t.Errorf("%v: %s", err, out)
				case agent != "nobody":
					var answer struct {
						Words  int
						Result struct {
							Data struct{ Words int } `json:"result_data"`
						}
					}
					if err := json.Unmarshal(out, &answer); err != nil || answer.Words+answer.Result.Data.Words != 42 {
						t.Errorf("%v: it printed %s", err, out)
					}
				}
			}
		})
	}
}
