// Package health has the check results of 'ao doctor' and GET /doctor, and the checks of files, disks, versions and
// clocks that several programs share. The coordinator reports what it sees; 'ao doctor' adds what it sees.
package health

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"ao/nats/bus"
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

// Result is the result of a check.
type Result struct {
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Message string  `json:"what"`
	Advice  string  `json:"advice,omitempty"` // what to do
}

// Report is what a coordinator reports about itself and its deployment.
type Report struct {
	At        time.Time `json:"at"` // by its clock
	Version   string    `json:"version"`
	Go        string    `json:"go"`
	Host      string    `json:"hostname"`
	PublicURL string    `json:"public_url"`
	Private   bool      `json:"private_network,omitempty"` // AO_PRIVATE_NETWORK is set
	Checks    []Result  `json:"checks"`
}

// Passed returns a check that passed.
func Passed(check, format string, args ...any) Result {
	return Result{Check: check, Verdict: OK, Message: fmt.Sprintf(format, args...)}
}

// Failed returns a check that failed, with what to do.
func Failed(check, advice, format string, args ...any) Result {
	return Result{check, Fail, fmt.Sprintf(format, args...), advice}
}

// Warned returns a check that passed with a warning, with what to do.
func Warned(check, advice, format string, args ...any) Result {
	return Result{check, Warn, fmt.Sprintf(format, args...), advice}
}

// Skipped returns a check that cannot be made from here, with how to make it.
func Skipped(check, advice, format string, args ...any) Result {
	return Result{check, Skip, fmt.Sprintf(format, args...), advice}
}

// OutdatedUsers returns the warning for a users.conf of an older version; where says which one.
func OutdatedUsers(where string) Result {
	return Warned("nats-users", "renew nats/users.conf with 'ao init --dir' and the folder of its keys, which "+
		"stay; then have NATS reload it, or restart an embedded one",
		"users.conf is of an older version: coordinators do not get the credential of a worker's request, or NATS "+
			"does not limit connections and subscriptions (%s)", where)
}

// Secret checks that only its owner can read a file of secrets, or look into a folder. setting names it.
func Secret(setting, path string) Result {
	what := fmt.Sprintf("%s %s", setting, path)
	info, err := os.Stat(path)
	if err != nil {
		return Failed("secrets", "make it readable for the user that needs it, or correct the setting",
			"%s cannot be read: %s", what, fault.Describe(err))
	}
	if info.Mode().Perm()&0o007 == 0 || !reachable(path) {
		return Passed("secrets", "%s is closed to other users (%v)", what, info.Mode().Perm())
	}
	right := "600"
	if info.IsDir() {
		right = "700"
		open, err := readableIn(path)
		if err == nil && open == "" {
			return Passed("secrets", "%s: its files are closed to other users", what)
		}
		what = fmt.Sprintf("%s %s/%s", setting, path, open)
	}
	return Failed("secrets", fmt.Sprintf("chmod %s %s; if somebody else may have read it, create new secrets", right,
		path), "%s is open to every user of its machine (%v)", what, info.Mode().Perm())
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
func Disk(setting, dir string) Result {
	for at := dir; ; at = filepath.Dir(at) {
		var s syscall.Statfs_t
		err := syscall.Statfs(at, &s)
		if err == nil {
			return judgeSpace(fmt.Sprintf("%s %s", setting, dir), uint64(s.Bavail)*uint64(s.Bsize),
				uint64(s.Blocks)*uint64(s.Bsize))
		}
		if at == filepath.Dir(at) || at == "." {
			return Skipped("disk", "check with df", "%s %s: %v", setting, dir, err)
		}
	}
}

// judgeSpace judges the free space of a disk that every record is written to.
func judgeSpace(what string, free, all uint64) Result {
	const advice = "free space or move the folder: with a full disk nothing is accepted (RUN_RETENTION, RUN_KEEP and " +
		"the streams' sizes set how much is kept)"
	summary := fmt.Sprintf("%s: %s free of %s", what, Size(free), Size(all))
	switch {
	case all == 0:
		return Skipped("disk", "check with df", "%s: its file system does not report its free space", what)
	case free < 256<<20 || free < all/50:
		return Failed("disk", advice, "%s", summary)
	case free < 2<<30 && free < all/4 || free < all/10:
		return Warned("disk", advice, "%s", summary)
	}
	return Passed("disk", "%s", summary)
}

// Store checks what NATS may store. limits is what its streams may hold in total, most what it stores at most, disk the
// size of its disk; 0: unknown. used is what they hold: at most, NATS switches JetStream off.
func Store(limits, used, most, disk uint64) Result {
	const check = "nats-store"
	summary := fmt.Sprintf("the streams may hold %s in total", Size(limits))
	if most > 0 {
		summary += fmt.Sprintf(", NATS stores at most %s (max_file_store), %s of it are used", Size(most), Size(used))
	}
	if disk > 0 {
		summary += fmt.Sprintf(", its disk has %s", Size(disk))
	}
	const room = "raise max_file_store and restart NATS, or keep less (RUN_KEEP, RUN_RETENTION): when all is used, " +
		"NATS switches JetStream off and nothing is accepted"
	switch {
	case most > 0 && used >= most/10*9:
		return Failed(check, room, "%s", summary)
	case most > 0 && used >= most/10*8:
		return Warned(check, room, "%s", summary)
	case most > 0 && limits > most:
		return Warned(check, "raise max_file_store, or lower the streams' limits ('nats stream edit'): NATS refuses "+
			"records before the streams are full", "%s", summary)
	case disk > 0 && limits > disk:
		return Warned(check, "lower the streams' limits ('nats stream edit'), or use a larger disk: with a full disk "+
			"nothing is accepted", "%s", summary)
	case disk > 0 && most > disk:
		return Warned(check, "lower max_file_store to the size of the disk", "%s", summary)
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

// Clock judges the offset of a clock from ours, measured to within uncertainty.
func Clock(who string, ahead, uncertainty time.Duration) Result {
	const advice = "synchronize the clocks by NTP (timedatectl, chronyc): times in records, expiry of tokens and " +
		"signatures of callbacks depend on them"
	off := max(ahead.Abs()-uncertainty, 0)
	summary := fmt.Sprintf("%s is %v %s", who, off.Round(100*time.Millisecond),
		map[bool]string{true: "ahead", false: "behind"}[ahead > 0])
	switch {
	case off >= time.Minute:
		return Failed("clocks", advice, "%s", summary)
	case off >= 2*time.Second:
		return Warned("clocks", advice, "%s", summary)
	}
	return Passed("clocks", "%s agrees to within %v", who, (off + uncertainty).Round(time.Millisecond))
}

// NATS judges a server's version.
func NATS(version string) Result {
	if _, ok := bus.ParseServerVersion(version); !ok {
		return Warned("nats-version", "check with nats-server --version: "+bus.MinServer.String()+" or newer is needed",
			"nats-server reports no version (%.40q)", version)
	}
	if err := bus.CheckServer(version); err != nil {
		return Failed("nats-version", "run a newer nats-server", "%v", err)
	}
	return Passed("nats-version", "nats-server %s", version)
}
