package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// machine describes the machine and the versions.
func (b *bench) machine() string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	add("%s", time.Now().UTC().Format("2006-01-02 15:04 UTC"))
	add("%d cores (%s)", runtime.NumCPU(), field("/proc/cpuinfo", "model name"))
	add("memory %s", field("/proc/meminfo", "MemTotal"))
	if raw, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		add("Linux %s", strings.TrimSpace(string(raw)))
	}
	if took, err := fsyncs(b.dir, 200); err == nil {
		add("an appended KiB and its fsync take %s (median)", ms(took))
	}
	if raw, err := os.ReadFile("/proc/loadavg"); err == nil {
		add("load average %s at the start", strings.Join(strings.Fields(string(raw))[:3], " "))
	}
	var versions []string
	versions = append(versions, runtime.Version())
	for _, server := range []string{"redis-server", "postgres"} {
		path, err := findProgram(server)
		if err != nil {
			continue
		}
		if text, err := exec.Command(path, "--version").Output(); err == nil {
			line, _, _ := strings.Cut(string(text), "\n")
			words := strings.Fields(line)
			switch {
			case server == "redis-server" && len(words) > 2:
				versions = append(versions, "Redis "+strings.TrimPrefix(words[2], "v="))
			case server == "postgres" && len(words) > 2:
				versions = append(versions, "PostgreSQL "+words[2])
			}
		}
	}
	if info, err := buildinfo.ReadFile(b.program); err == nil {
		for _, m := range info.Deps {
			if m.Path == "github.com/nats-io/nats-server/v2" {
				versions = append(versions, "nats-server "+m.Version)
			}
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				versions = append(versions, "ours at "+s.Value[:min(len(s.Value), 12)])
			case s.Key == "vcs.modified" && s.Value == "true":
				versions = append(versions, "with changes that are not committed")
			}
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, name := range []string{"github.com/hibiken/asynq", "github.com/redis/go-redis/v9",
			"github.com/riverqueue/river", "github.com/jackc/pgx/v5", "github.com/nats-io/nats.go"} {
			if i := slices.IndexFunc(info.Deps, func(m *debug.Module) bool { return m.Path == name }); i >= 0 {
				versions = append(versions, strings.TrimPrefix(name, "github.com/")+" "+info.Deps[i].Version)
			}
		}
	}
	return strings.Join(parts, ", ") + ".\n" + strings.Join(versions, ", ") + "."
}

// field returns the value of a line such as "model name : x".
func field(path, name string) string {
	raw, _ := os.ReadFile(path)
	for line := range strings.Lines(string(raw)) {
		key, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// fsyncs measures the time of one fsync on an idle disk.
func fsyncs(dir string, n int) (_ time.Duration, err error) {
	defer caught(&err)
	f := must(os.CreateTemp(dir, "fsync-"))
	defer os.Remove(f.Name())
	defer f.Close()
	var took []time.Duration
	for range n {
		begin := time.Now()
		must(f.Write(make([]byte, 1024)))
		check(f.Sync())
		took = append(took, time.Since(begin))
	}
	return median(took), nil
}
