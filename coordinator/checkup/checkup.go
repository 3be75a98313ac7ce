// Package checkup has the findings of 'ao doctor' and GET /doctor, and the checks of files, disks, versions and clocks
// that several programs make. The coordinator reports what it can see; 'ao doctor' adds what it sees from its place.
package checkup

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ao/shared/fault"
)

// Verdict is the outcome of a check.
type Verdict string

// The verdicts.
const (
	OK   Verdict = "ok"
	Warn Verdict = "warn" // it works, but should be improved
	Fail Verdict = "fail" // fix it
	Skip Verdict = "skip" // cannot be checked from here
)

// Finding is a check with its outcome.
type Finding struct {
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Say     string  `json:"what"`
	Advice  string  `json:"advice,omitempty"` // what to do
}

// Report is what a coordinator reports about itself and its deployment.
type Report struct {
	At        time.Time `json:"at"` // by its clock
	Version   string    `json:"version"`
	Go        string    `json:"go"`
	Host      string    `json:"hostname"`
	PublicURL string    `json:"public_url"`
	// it says that only its own programs are on its network
	Private bool      `json:"private_network,omitempty"`
	Checks  []Finding `json:"checks"`
}

// Passed is a check that passed.
func Passed(check, format string, args ...any) Finding {
	return Finding{Check: check, Verdict: OK, Say: fmt.Sprintf(format, args...)}
}

// Failed is a check that failed, with what to do.
func Failed(check, advice, format string, args ...any) Finding {
	return Finding{check, Fail, fmt.Sprintf(format, args...), advice}
}

// Warned is a check that passed with a warning, with what to do.
func Warned(check, advice, format string, args ...any) Finding {
	return Finding{check, Warn, fmt.Sprintf(format, args...), advice}
}

// Skipped is a check that cannot be made from here, with how to make it.
func Skipped(check, advice, format string, args ...any) Finding {
	return Finding{check, Skip, fmt.Sprintf(format, args...), advice}
}

// OutdatedUsers is the warning for a users.conf of an older version; where says which one.
func OutdatedUsers(where string) Finding {
	return Warned("nats-users", "'ao init --dir' with the folder of its keys renews nats/users.conf and keeps every "+
		"key; then have NATS reload it, or restart an embedded one",
		"users.conf is of an older version: NATS does not tell coordinators whose credential a worker's request "+
			"comes with (%s)", where)
}

// Secret checks that only its owner can read a file of secrets, or look into a folder. setting names it.
func Secret(setting, path string) Finding {
	what := fmt.Sprintf("%s %s", setting, path)
	info, err := os.Stat(path)
	if err != nil {
		return Failed("secrets", "make it readable for the user that needs it, or mend the setting",
			"%s cannot be looked at: %s", what, fault.Describe(err))
	}
	if info.Mode().Perm()&0o007 == 0 || !reachable(path) {
		return Passed("secrets", "%s is closed to other users (%v)", what, info.Mode().Perm())
	}
	right := "600"
	if info.IsDir() {
		right = "700"
		open, err := readableIn(path)
		if err == nil && open == "" {
			return Passed("secrets", "%s: what lies in it is closed to other users", what)
		}
		what = fmt.Sprintf("%s %s/%s", setting, path, open)
	}
	return Failed("secrets", fmt.Sprintf("chmod %s %s; if somebody else may have read it, make new secrets", right,
		path),
		"%s is open to every user of its machine (%v)", what, info.Mode().Perm())
}

// readableIn returns a file in a folder that every user may read; empty: there is none.
func readableIn(dir string) (string, error) {
	all, err := os.ReadDir(dir)
	for _, e := range all {
		if info, err := e.Info(); err == nil && info.Mode()&fs.ModeSymlink == 0 && info.Mode().Perm()&0o004 != 0 {
			return e.Name(), nil
		}
	}
	return "", err
}

// reachable reports whether any user can reach a file: a folder on the way may be closed.
func reachable(path string) bool {
	path, err := filepath.Abs(path)
	for dir := filepath.Dir(path); err == nil; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err == nil && info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return true
}

// Disk checks the free space where a folder is, or will be.
func Disk(setting, dir string) Finding {
	for at := dir; ; at = filepath.Dir(at) {
		var s syscall.Statfs_t
		err := syscall.Statfs(at, &s)
		if err == nil {
			return judgeSpace(fmt.Sprintf("%s %s", setting, dir), uint64(s.Bavail)*uint64(s.Bsize),
				uint64(s.Blocks)*uint64(s.Bsize))
		}
		if at == filepath.Dir(at) || at == "." {
			return Skipped("disk", "look with df", "%s %s: %v", setting, dir, err)
		}
	}
}

// judgeSpace judges the free space of a disk that every record is written to.
func judgeSpace(what string, free, all uint64) Finding {
	const advice = "make room, or move the folder: when the disk is full nothing is accepted any more " +
		"(RUN_RETENTION, RUN_KEEP and the streams' sizes say how much is kept)"
	summary := fmt.Sprintf("%s: %s free of %s", what, Size(free), Size(all))
	switch {
	case all == 0:
		return Skipped("disk", "look with df", "%s: its file system does not say how much room there is", what)
	case free < 256<<20 || free < all/50:
		return Failed("disk", advice, "%s", summary)
	case free < 2<<30 && free < all/4 || free < all/10:
		return Warned("disk", advice, "%s", summary)
	}
	return Passed("disk", "%s", summary)
}

// Store checks what NATS may store. limits is what its streams may hold in total, most what it stores at most, disk the
// size of its disk; 0: unknown.
func Store(limits, most, disk uint64) Finding {
	const check = "nats-store"
	summary := fmt.Sprintf("the streams may hold %s in all", Size(limits))
	if most > 0 {
		summary += fmt.Sprintf(", NATS stores %s at most", Size(most))
	}
	if disk > 0 {
		summary += fmt.Sprintf(", its disk has %s", Size(disk))
	}
	switch {
	case most > 0 && limits > most:
		return Warned(check, "raise max_file_store, or give the streams less ('nats stream edit'): NATS refuses every "+
			"record before they are full", "%s", summary)
	case disk > 0 && limits > disk:
		return Warned(check, "give the streams less ('nats stream edit'), or NATS a larger disk: when that is full "+
			"nothing is accepted any more", "%s", summary)
	case disk > 0 && most > disk:
		return Warned(check, "set max_file_store to what the disk has at most", "%s", summary)
	}
	return Passed(check, "%s", summary)
}

// Size formats a number of bytes.
func Size(n uint64) string {
	for _, u := range []struct {
		name string
		at   uint64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.at {
			return strconv.FormatFloat(float64(n)/float64(u.at), 'f', 1, 64) + " " + u.name
		}
	}
	return strconv.FormatUint(n, 10) + " B"
}

// Clock judges how far a clock is from ours, measured to within doubt.
func Clock(who string, ahead, doubt time.Duration) Finding {
	const advice = "let the machines keep their clocks by NTP (timedatectl, chronyc): times in records, limits of " +
		"tokens and signatures of callbacks are judged by them"
	off := max(ahead.Abs()-doubt, 0)
	summary := fmt.Sprintf("%s is %v %s", who, off.Round(100*time.Millisecond),
		map[bool]string{true: "ahead", false: "behind"}[ahead > 0])
	switch {
	case off >= time.Minute:
		return Failed("clocks", advice, "%s", summary)
	case off >= 2*time.Second:
		return Warned("clocks", advice, "%s", summary)
	}
	return Passed("clocks", "%s agrees, to within %v", who, (off + doubt).Round(time.Millisecond))
}

// minNATS is the oldest usable server: it has atomic batches.
var minNATS = [2]int{2, 12}

// NATS judges a server's version.
func NATS(version string) Finding {
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	switch {
	case errA != nil || errB != nil:
		return Warned("nats-version", "look with nats-server --version: 2.12 or newer is needed",
			"nats-server does not tell its version (%.40q)", version)
	case a < minNATS[0] || a == minNATS[0] && b < minNATS[1]:
		return Failed("nats-version", "run nats-server 2.12 or newer: older ones have no atomic batches",
			"nats-server %s is too old", version)
	}
	return Passed("nats-version", "nats-server %s", version)
}
