package users

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"ao/nats/subject"
)

// Renew is Config for a configuration that an earlier call made, perhaps of an older version. Lines that an
// operator added stay in their places. The error names a line of ours that was changed or removed, or an added
// line whose place is gone.
func Renew(have string, all []User, tls TLS) (string, error) {
	made, want := made(have, tls), Config(all, tls)
	before, now, wanted := split(made), split(have), split(want)
	added, missing := additions(before, now)
	if missing != "" {
		return "", fmt.Errorf("the line %q was changed or removed by hand: "+
			"put it back, or move the file away to get a new one, and run 'ao init' again",
			strings.TrimSpace(missing))
	}
	if len(added) == 0 {
		return want, nil
	}
	place := matches(before, wanted)
	var b strings.Builder
	b.WriteString(strings.Join(added[-1], ""))
	at := 0
	for i := range before {
		if added[i] == nil {
			continue
		}
		if place[i] < 0 {
			return "", fmt.Errorf("the line %q was added after one that no longer exists: "+
				"move it to another place, and run 'ao init' again", strings.TrimSpace(added[i][0]))
		}
		b.WriteString(strings.Join(wanted[at:place[i]+1], "") + strings.Join(added[i], ""))
		at = place[i] + 1
	}
	b.WriteString(strings.Join(wanted[at:], ""))
	return b.String(), nil
}

// Current reports whether a configuration is of this version. The server then names the senders of workers' requests.
// It limits connections, subscriptions and the subjects of events.
func Current(have string) bool {
	return named(have) && !strings.Contains(have, `"`+allEvents+`"`) &&
		strings.Contains(have, limits[Worker].line()) && strings.Contains(have, limits[Publisher].line())
}

// named reports whether a configuration makes the server name the senders of workers' requests.
func named(conf string) bool {
	for _, s := range services[Worker] {
		line := fmt.Sprintf("{service: {account: %s, subject: %q}", AccountCoordinators, s.subject)
		if s.named && strings.Contains(conf, line) && !strings.Contains(conf, line+shareOption) {
			return false
		}
	}
	return true
}

// allEvents is what a worker could publish events to before their kinds were listed.
var allEvents = subject.Event("*", "*", "*", "*")

var (
	limitsLine = regexp.MustCompile(`(?m)^    limits: \{max_connections: \d+, max_subscriptions: \d+\}\n`)
	eventKinds = regexp.MustCompile(`"ao\.events\.\*\.\*\.\*\.[a-z_]+"(, "ao\.events\.\*\.\*\.\*\.[a-z_]+")*`)
	// the first kind's line stands for all
	otherKinds = regexp.MustCompile(
		`(?m)^      \{service: .*"ao\.events\.\*\.\*\.\*\.(pre_tool|post_tool|metadata|pack)".*\n`)
)

// unlimited returns a configuration, or a line of one, as it was before there were limits.
func unlimited(text string) string {
	text = otherKinds.ReplaceAllString(limitsLine.ReplaceAllString(text, ""), "")
	return eventKinds.ReplaceAllString(text, `"`+allEvents+`"`)
}

func split(text string) []string { return slices.Collect(strings.Lines(text)) }

var (
	ours = regexp.MustCompile(`(?m)^      # (coordinator|publisher|worker|worker-[0-9A-Za-z_-]+)\n      \{nkey: ` +
		`(U[0-9A-Z]+)(?:\}|, permissions: \{\n(.*))\n`)
	profiles = regexp.MustCompile(`"ao\.fleet\.register\.(autonomous|procedural)\.([0-9A-Za-z_-]+)"`)
	theTLS   = regexp.MustCompile(`(?m)^tls \{\n  cert_file: "(.*)"\n  key_file: "(.*)"\n  min_version: "1\.2"\n\}\n`)
)

// made returns the configuration that 'ao init' had written, with the users and the version of that time.
func made(have string, tls TLS) string {
	var all []User
	for _, m := range ours.FindAllStringSubmatch(have, -1) {
		u := User{Name: m[1], Role: Worker, Key: m[2]}
		if r := Role(m[1]); account[r] != "" {
			u.Role = r
		}
		if u.Role == Worker {
			for _, p := range profiles.FindAllStringSubmatch(m[3], -1) {
				u.Profiles = append(u.Profiles, Profile{p[1], p[2]})
			}
		}
		all = append(all, u)
	}
	then := TLS{}
	if m := theTLS.FindStringSubmatch(have); m != nil && tls.Cert != "" {
		then = tls
		if path.Base(path.Dir(m[1]))+"/"+path.Base(m[1]) == "nats/server.crt" { // the folder was elsewhere
			then = TLS{Cert: m[1], Key: m[2]}
		}
	}
	text := Config(all, then)
	if !Current(have) {
		text = unlimited(text)
	}
	if strings.HasPrefix(have, oldTitle) || !named(have) {
		text = strings.ReplaceAll(strings.Replace(text, title, oldTitle, 1), shareOption, "")
	}
	return text
}

// additions returns the lines after each line of before, and under -1 those at the start. missing is a line of
// before that is gone.
func additions(before, now []string) (added map[int][]string, missing string) {
	added = map[int][]string{}
	at := 0
	for i, line := range before {
		n := slices.Index(now[at:], line)
		if n < 0 {
			return nil, line
		}
		if n > 0 {
			added[i-1] = now[at : at+n]
		}
		at += n + 1
	}
	if at < len(now) {
		added[len(before)-1] = now[at:]
	}
	return added, ""
}

// matches finds each line of a in b, in order, as many as possible; -1: it is not there.
func matches(a, b []string) []int {
	same := func(x, y string) bool {
		plain := func(s string) string {
			return unlimited(strings.Replace(strings.Replace(s, shareOption, "", 1), title, oldTitle, 1))
		}
		return plain(x) == plain(y)
	}
	longest := make([][]int, len(a)+1) // of a[i:] and b[j:]
	for i := range longest {
		longest[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			if same(a[i], b[j]) {
				longest[i][j] = max(longest[i][j], longest[i+1][j+1]+1)
			}
		}
	}
	place := make([]int, len(a))
	for i := range place {
		place[i] = -1
	}
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case same(a[i], b[j]):
			place[i] = j
			i, j = i+1, j+1
		case longest[i+1][j] > longest[i][j+1]:
			i++
		default:
			j++
		}
	}
	return place
}
