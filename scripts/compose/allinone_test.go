//go:build compose

package compose

import (
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"ao/shared/clock/clocktest"
)

// TestAllInOneImage: the image alone runs an example. Its first start makes a token in the volume, without which nobody
// gets in, and which no log shows. A new container with the same volume has the same token and history.
func TestAllInOneImage(t *testing.T) {
	const image, volume = "ao-test-allinone", "ao-test-allinone"
	docker := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "docker", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	remove := func(args ...string) { _ = exec.Command("docker", args...).Run() } // at the end, whatever is there
	t.Cleanup(func() { remove("volume", "rm", "-f", volume); remove("rmi", image) })
	docker("build", "-q", "-f", "../images/Dockerfile", "--target", "allinone", "--build-arg", "GOPROXY", "--build-arg",
		"GOSUMDB", "--build-arg", "AO_VERSION", "--build-arg", "AO_REVISION", "-t", image, "../..")
	address := "127.0.0.1:" + os.Getenv("AO_HTTP_PORT")
	token, run := "", ""
	for start := range 2 {
		id := docker("run", "-d", "--read-only", "--tmpfs", "/tmp", "--cap-drop=ALL", "-p", address+":8765", "-v",
			volume+":/data", image)
		t.Cleanup(func() { remove("rm", "-f", id) })
		if !clocktest.Poll(time.Minute, func() bool {
			return exec.CommandContext(t.Context(), "docker", "exec", id, "ao", "health").Run() == nil
		}) {
			t.Fatalf("it is not ready within a minute\n%s", docker("logs", id))
		}
		if a, err := http.Get("http://" + address + "/agents"); err != nil || a.StatusCode != http.StatusUnauthorized {
			t.Errorf("without a token: %v %v, want 401", a, err)
		}
		kept := docker("exec", id, "cat", "/data/admin.token")
		if start == 0 {
			token = kept
			out := docker("exec", "-e", "AO_TOKEN="+token, id, "ao", "run", "hello", "--param", "name=you")
			if !strings.Contains(out, "Hello, you!") {
				t.Errorf("hello says %s", out)
			}
		}
		runs := docker("exec", "-e", "AO_TOKEN="+token, id, "ao", "runs", "--json")
		if kept != token || run != "" && runs != run {
			t.Errorf("after a new start: runs %s, want %s; the same token: %t", runs, run, kept == token)
		}
		run = runs
		log := docker("logs", id)
		if strings.Contains(log, token) || !strings.Contains(log, "docker exec ") {
			t.Errorf("the log has the token, or does not say where it is:\n%s", log)
		}
		docker("stop", "-t", "30", id)
		docker("rm", id)
	}
}
