package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"ao/nats/natstest"
	"ao/shared/metric/metrictest"
)

// Version and commit of the programs in these tests.
const (
	builtAs = "v9.8.7-e2e"
	builtOf = "0123456789abcdef0123456789abcdef01234567"
)

// linkerFlags returns the linker flags for a version and a commit.
func linkerFlags(version, commit string) string {
	return "-X ao/shared/version.stamp=" + version + " -X ao/shared/version.commit=" + commit
}

// TestEveryBuildIsStamped: every way to build the programs and images sets version and commit.
func TestEveryBuildIsStamped(t *testing.T) {
	t.Parallel()
	labels := "LABEL org.opencontainers.image.version=$AO_VERSION org.opencontainers.image.revision=$AO_REVISION"
	for file, lines := range map[string][]string{
		"scripts/up":                 {linkerFlags("$version", "$commit")},
		"scripts/images/build":       {linkerFlags("$AO_VERSION", "$AO_REVISION")},
		"scripts/images/Dockerfile":  {labels},
		"docker-compose.yml":         {"\n  AO_VERSION:", "\n  AO_REVISION:"},
		"docker-compose.cluster.yml": {"\n  AO_VERSION:", "\n  AO_REVISION:"},
	} {
		text, err := os.ReadFile(filepath.Join(root(), file))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			if !strings.Contains(string(text), line) {
				t.Errorf("%s has no %q", file, line)
			}
		}
	}
}

// TestImagesBuildWithoutAVersion: nobody has to set AO_VERSION for the images.
func TestImagesBuildWithoutAVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte("#!/bin/sh\necho \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/bin/sh", filepath.Join(root(), "scripts/images/build"), "worker/cmd/worker")
	c.Env = []string{"PATH=" + dir}
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "-C worker/cmd/worker build") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestOldComposeReadsTheFiles: docker-compose 1.29 accepts both files with all their profiles.
func TestOldComposeReadsTheFiles(t *testing.T) {
	t.Parallel()
	version, err := exec.Command("docker-compose", "version", "--short").Output()
	if err != nil || !strings.HasPrefix(string(version), "1.29.") {
		t.Skipf("there is no docker-compose 1.29 here (%s, %v)", version, err)
	}
	for _, file := range []string{"docker-compose.yml", "docker-compose.cluster.yml"} {
		c := exec.Command("docker-compose", "-f", file, "--profile", "claude", "--profile", "llm", "config", "-q")
		c.Dir = root()
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
}

// TestVersions: every program answers --version and version; 'ao doctor' and the metrics show the same version.
func TestVersions(t *testing.T) {
	t.Parallel()
	s := up(t)
	for _, main := range mains {
		name := filepath.Base(main)
		for _, arg := range []string{"--version", "version"} {
			out, errs, code := s.exec(name, "", nil, arg)
			if want := name + " " + builtAs + " (" + runtime.Version(); code != 0 || errs != "" ||
				!strings.HasPrefix(out, want) {
				t.Errorf("%s %s: %d %s%s", name, arg, code, out, errs)
			}
		}
	}
	s.agent("ok", `echo '{}'`, "")
	metrics := natstest.FreeAddr(t)
	s.worker("AO_METRICS_ADDR=" + metrics)
	out, _, _ := s.exec("ao", "", []string{"AO_URL=" + s.url}, "doctor")
	s.contains(out, "ok    ao            version "+builtAs, "ok    coordinator   version "+builtAs,
		"ok    versions      coordinators: 1 of version "+builtAs+"; runners: 1 of version "+builtAs,
		"ok    nats-version  nats-server 2.")
	for _, at := range []string{s.url, "http://" + metrics} {
		if p := metrictest.Get(t, at+"/metrics"); p.Sum("ao_build_info", "version="+builtAs, "revision="+builtOf) != 1 {
			t.Errorf("ao_build_info at %s does not show version and commit", at)
		}
	}
}
