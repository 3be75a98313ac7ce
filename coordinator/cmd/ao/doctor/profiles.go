package doctor

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ao/coordinator/health"
	"ao/shared/config"
	"ao/shared/fault"
	"ao/shared/strictjson"
)

// profiles checks that the profiles of this environment can be read and that their programs exist. The worker checks
// everything else when it starts.
func (c Config) profiles() (all results) {
	dir := c.Env("AO_PROFILES_DIR")
	if dir == "" {
		return nil
	}
	const advice = "fix the profile; the worker reads it when it starts"
	names := strings.FieldsFunc(c.Env("AO_PROFILES"), func(r rune) bool { return r == ',' || r == ' ' })
	if len(names) == 0 {
		files, err := filepath.Glob(filepath.Join(dir, "*.json"))
		if _, stat := os.Stat(dir); err != nil || stat != nil {
			return results{health.Failed("profiles", "correct AO_PROFILES_DIR", "AO_PROFILES_DIR %s cannot be read",
				dir)}
		}
		for _, f := range files {
			names = append(names, strings.TrimSuffix(filepath.Base(f), ".json"))
		}
	}
	for _, name := range names {
		if why := profileError(dir, name); why != "" {
			all = append(all, health.Failed("profiles", advice, "profile %s does not load: %s", name, why))
		}
	}
	if len(all) == 0 {
		all = append(all, health.Passed("profiles", "%s can be read", strings.Join(names, ", ")))
	}
	return all
}

// profileError returns why a profile cannot be run; empty: no problem found.
func profileError(dir, name string) string {
	text, err := os.ReadFile(filepath.Join(dir, name+".json"))
	if err != nil {
		return fault.Describe(err)
	}
	var p struct {
		Type    string `json:"type"`
		Command string `json:"command"`
		Agents  string `json:"agents_dir"`
	}
	if err := json.Unmarshal(strictjson.TrimBOM(text), &p); err != nil {
		return fault.Describe(err)
	}
	if !slices.Contains([]string{"autonomous", "procedural"}, p.Type) {
		return fmt.Sprintf("type %.40q is neither autonomous nor procedural", p.Type)
	}
	for what, path := range map[string]string{"command": p.Command, "agents_dir": p.Agents} {
		// a name is looked up in PATH, or is built in
		if path == "" || what == "command" && !strings.Contains(path, "/") {
			continue
		}
		path = config.Locate(path, dir)
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return fmt.Sprintf("%s %s does not exist", what, path)
		case what == "command" && (info.IsDir() || info.Mode().Perm()&fs.FileMode(0o111) == 0):
			return fmt.Sprintf("command %s is not executable: chmod +x", path)
		}
	}
	return ""
}
