// Package doctor checks what a coordinator sees. It writes nothing.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"ao/coordinator/checkup"
	"ao/coordinator/control/versions"
	"ao/coordinator/projection"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/shared/version"
)

// maxNamed is how many of one kind a finding names.
const maxNamed = 5

// Doctor checks what a coordinator sees.
type Doctor struct {
	NATS interface {
		Storage() error
		ServerHealth(ctx context.Context) (bus.ServerHealth, error)
		RequestMany(ctx context.Context, subj string, within time.Duration) ([][]byte, error)
	}
	History interface {
		Counts() (waiting, begun, ended int)
		Callbacks(ctx context.Context, q projection.Query) (projection.CallbackPage, error)
	}
	Past    interface{ WaitOwnWrites(ctx context.Context) }
	Members func() []runnerapi.Member
	Agents  interface {
		Agents(status string) ([]agent.Blueprint, error)
		BrokenAgents() []agent.BrokenFile
	}
	Waits      interface{ UnmatchedQueues() map[string]time.Time }
	Ready      func() error
	NoMatch    time.Duration // how long a run waits for a runner before it fails
	MaxPending int           // most waiting runs
}

// Checkup checks what every coordinator sees: NATS and its streams, runners, queues, agents, callbacks.
func (d *Doctor) Checkup(ctx context.Context) []checkup.Finding {
	d.Past.WaitOwnWrites(ctx)
	var all []checkup.Finding
	if err := d.NATS.Storage(); err != nil {
		all = append(all, checkup.Failed("nats-storage", "make room on the disk of NATS; where the server is one "+
			"of its "+
			"own, restart it then (in this process it goes on by itself): nothing that was accepted is lost", "%s",
			fault.Of(err).Message))
	} else if err := d.Ready(); err != nil {
		all = append(all, checkup.Failed("ready", "look at the coordinator's log, and whether NATS runs",
			"this coordinator is not ready: %v", err))
	}
	s, err := d.NATS.ServerHealth(ctx)
	if err != nil {
		all = append(all, checkup.Failed("nats", "start NATS, or correct AO_NATS_URL and AO_NATS_CREDS",
			"NATS does not answer: %v", err))
	} else {
		all = append(all, checkup.NATS(s.Version), checkup.Clock("the clock of NATS", s.ClockOffset, s.ClockError))
		all = append(all, replicas(s))
		all = append(all, fill(s.Streams)...)
		if s.MaxStore > 0 {
			all = append(all, checkup.Store(s.Limits(), s.MaxStore, 0))
		}
	}
	runners, versions := d.checkRunners()
	all = append(append(all, runners...), d.checkVersions(ctx, versions))
	all = append(all, d.checkQueues(), d.checkPending())
	all = append(all, d.checkAgents()...)
	return append(all, d.checkCallbacks(ctx)...)
}

// replicas checks how many servers keep each record.
func replicas(s bus.ServerHealth) checkup.Finding {
	least, behind := 0, map[string]bool{}
	for _, one := range s.Streams {
		if least == 0 || one.Replicas < least {
			least = one.Replicas
		}
		for _, name := range one.Behind {
			behind[name] = true
		}
	}
	switch {
	case s.Cluster == "":
		return checkup.Passed("replicas", "a single NATS server: it keeps everything once")
	case least < 2:
		return checkup.Warned("replicas", "set AO_NATS_REPLICAS=3 for all coordinators and restart them",
			"NATS is a cluster, and every record is on one of its servers only")
	case len(behind) > 0:
		return checkup.Warned("replicas", "bring these servers back and wait until they have caught up; take no other "+
			"one down meanwhile ('nats stream report')",
			"%d replicas, of which some are away or not complete: %s", least,
			strings.Join(slices.Sorted(maps.Keys(behind)), ", "))
	case least%2 == 0:
		return checkup.Warned("replicas", "set AO_NATS_REPLICAS=3: two copies need both servers, and so are less safe "+
			"to stand still than one", "%d replicas", least)
	}
	return checkup.Passed("replicas", "%d replicas, all complete", least)
}

// fill checks how full the streams are. RUNS refuses new runs at nine tenths; streams that drop old entries are meant
// to be full.
func fill(streams []bus.StreamHealth) (all []checkup.Finding) {
	for _, s := range streams {
		const advice = "give the stream more room ('nats stream edit %s --max-bytes=…'), or keep less " +
			"(RUN_RETENTION, RUN_KEEP)"
		summary := fmt.Sprintf("stream %s holds %s", s.Name, checkup.Size(s.Bytes))
		if s.MaxBytes > 0 {
			summary += " of " + checkup.Size(s.MaxBytes)
		}
		switch {
		case !s.RejectsWhenFull || s.MaxBytes == 0:
			all = append(all, checkup.Passed("streams", "%s", summary))
		case s.Bytes >= s.MaxBytes/10*9:
			all = append(all, checkup.Failed("streams", fmt.Sprintf(advice, s.Name), "%s: new runs are refused",
				summary))
		case s.Bytes >= s.MaxBytes/4*3:
			all = append(all, checkup.Warned("streams", fmt.Sprintf(advice, s.Name), "%s", summary))
		default:
			all = append(all, checkup.Passed("streams", "%s", summary))
		}
	}
	return all
}

// checkRunners also returns how many online runners have which version.
func (d *Doctor) checkRunners() (all []checkup.Finding, versions map[string]int) {
	online, silent, open, unnamed, versions := 0, []string{}, []string{}, []string{}, map[string]int{}
	for _, m := range d.Members() {
		name := fmt.Sprintf("%s on %s (%s)", m.ExecutorProfile, m.Hostname, m.ID)
		if m.Status == runnerapi.Left { // only its agents' names are kept
			continue
		}
		if m.Status == runnerapi.Stale || m.Status == runnerapi.Removed {
			silent = append(silent, fmt.Sprintf("%s for %v", name, time.Since(m.LastHeartbeat).Round(time.Second)))
			continue
		}
		online++
		if m.ReadableSecret != "" {
			open = append(open, fmt.Sprintf("%q of runner %s", m.ReadableSecret, name))
		}
		if m.CredentialUnknown {
			unnamed = append(unnamed, name)
		}
		versions[cmp.Or(m.Version, version.Unknown)]++
		if m.ClockKnown {
			// its heartbeat took a while
			if f := checkup.Clock("the clock of runner "+name, m.ClockOffset,
				500*time.Millisecond); f.Verdict != checkup.OK {
				all = append(all, f)
			}
		}
	}
	if online > 0 && len(all) == 0 {
		all = append(all, checkup.Passed("clocks", "the clocks of all runners agree with the coordinator's"))
	}
	if len(open) > 0 {
		all = append(all, checkup.Failed("worker-secrets", "hide the file from programs: AO_HIDE of that worker names "+
			"it, or its folder (Linux with Landlock), or the profile gets a sandbox",
			"executor programs can read what a worker logs in with, and then do what it may: %s", firstFew(open)))
	}
	switch {
	case len(silent) > 0:
		all = append(all, checkup.Warned("runners", "look whether these workers run, and reach NATS; a runner that is "+
			"gone for good is removed by itself, or by 'ao runners delete'", "silent: %s", firstFew(silent)))
	case online == 0:
		all = append(all, checkup.Warned("runners", "start a worker: without runners no run starts",
			"there are no runners"))
	default:
		all = append(all, checkup.Passed("runners", "%d online, all send heartbeats", online))
	}
	if len(unnamed) > 0 {
		all = append(all, checkup.OutdatedUsers("heartbeats of "+firstFew(unnamed)))
	}
	return all, versions
}

// surveyTime is how long coordinators have to report their version.
const surveyTime = 300 * time.Millisecond

// checkVersions asks all coordinators for their versions and compares them with those of the runners.
func (d *Doctor) checkVersions(ctx context.Context, runners map[string]int) checkup.Finding {
	coordinators := map[string]int{}
	answers, _ := d.NATS.RequestMany(ctx, subject.APIPing, surveyTime) // an unavailable NATS is another finding
	for _, a := range answers {
		coordinators[versions.ProgramIn(a)]++
	}
	if len(coordinators) == 0 {
		coordinators[version.Current()]++
	}
	return judgeVersions(coordinators, runners)
}

// judgeVersions compares versions. Builds without a version are left out.
func judgeVersions(coordinators, runners map[string]int) checkup.Finding {
	say := "coordinators: " + countVersions(coordinators)
	if len(runners) > 0 {
		say += "; runners: " + countVersions(runners)
	}
	known := maps.Clone(coordinators)
	maps.Copy(known, runners)
	delete(known, version.Unknown)
	if len(known) > 1 {
		return checkup.Warned("versions", "bring all to one version when it suits: coordinators first, then workers",
			"%s",
			say)
	}
	return checkup.Passed("versions", "%s", say)
}

// countVersions formats how many there are of each version.
func countVersions(versions map[string]int) string {
	var all []string
	for _, v := range slices.Sorted(maps.Keys(versions)) {
		all = append(all, fmt.Sprintf("%d of version %s", versions[v], v))
	}
	return firstFew(all)
}

// firstFew joins the first few names.
func firstFew(all []string) string {
	if len(all) > maxNamed {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:maxNamed], ", "), len(all)-maxNamed)
	}
	return strings.Join(all, ", ")
}

// checkQueues checks whether a runner takes the runs that wait.
func (d *Doctor) checkQueues() checkup.Finding {
	var lonely []string
	for queue, since := range d.Waits.UnmatchedQueues() {
		lonely = append(lonely, fmt.Sprintf("%s for %v", queue, time.Since(since).Round(time.Second)))
	}
	if len(lonely) > 0 {
		slices.Sort(lonely)
		return checkup.Warned("queues", fmt.Sprintf("start workers that match these runs ('ao explain RUN' says "+
			"it): they fail %v after nobody matches (RUN_NO_MATCH_TIMEOUT)", d.NoMatch),
			"runs wait for runners that are not online: %s", firstFew(lonely))
	}
	return checkup.Passed("queues", "every queue with waiting runs has a runner")
}

func (d *Doctor) checkPending() checkup.Finding {
	waiting, _, _ := d.History.Counts()
	if waiting*4 >= d.MaxPending*3 {
		return checkup.Warned("waiting", "start more workers, or allow more (AO_MAX_PENDING): beyond it new runs "+
			"get 429",
			"%d runs wait, of %d that may", waiting, d.MaxPending)
	}
	return checkup.Passed("waiting", "%d runs wait, of %d that may", waiting, d.MaxPending)
}

func (d *Doctor) checkAgents() (all []checkup.Finding) {
	for _, b := range d.Agents.BrokenAgents() {
		if len(all) == maxNamed {
			return append(all, checkup.Failed("agents", "'ao agents --status broken' lists them all", "and more"))
		}
		where := b.Path
		if b.RunnerID != "" {
			where += " of " + b.RunnerID
		}
		all = append(all, checkup.Failed("agents", "fix the file; a coordinator's is read again when it changes, a "+
			"worker's when the worker starts", "agent %s (%s) does not load: %s", b.Name, where, b.Reason))
	}
	if len(all) == 0 {
		list, _ := d.Agents.Agents("")
		all = append(all, checkup.Passed("agents", "all %d load", len(list)))
	}
	return all
}

// long is how long a callback may be owed before somebody should know.
const long = 15 * time.Minute

func (d *Doctor) checkCallbacks(ctx context.Context) []checkup.Finding {
	const most = 1000
	owed, err := d.History.Callbacks(ctx, projection.Query{Statuses: []string{run.CallbackPending}, Limit: most})
	if err != nil {
		return []checkup.Finding{checkup.Skipped("callbacks", "ask again", "what is owed cannot be read: %v", err)}
	}
	dead, err := d.History.Callbacks(ctx, projection.Query{Statuses: []string{run.CallbackDead}, Limit: most})
	if err != nil {
		return []checkup.Finding{checkup.Skipped("callbacks", "ask again", "what was given up cannot be read: %v", err)}
	}
	return pendingCallbacks(owed.Runs, len(dead.Runs), time.Now())
}

// pendingCallbacks judges callbacks: of these runs that are owed, and so many that were given up.
func pendingCallbacks(owed []run.Run, dead int, now time.Time) (all []checkup.Finding) {
	late := 0
	var first time.Time
	for _, r := range owed {
		if r.EndedAt != nil && now.Sub(*r.EndedAt) > long {
			late++
			if first.IsZero() || r.EndedAt.Before(first) {
				first = *r.EndedAt
			}
		}
	}
	if late > 0 {
		all = append(all, checkup.Warned("callbacks", "'ao callbacks --status owed' lists them: is the parent session "+
			"busy, does the receiver answer?", "%d are owed for more than %v, one since %s", late, long, first.UTC().
			Format(time.RFC3339)))
	}
	if dead > 0 {
		all = append(all, checkup.Warned("callbacks", "'ao callbacks --status dead' lists them; 'ao callbacks "+
			"redeliver "+
			"RUN' tries one again", "%d were given up after all tries", dead))
	}
	if len(all) == 0 {
		all = append(all, checkup.Passed("callbacks", "%d owed, none for long", len(owed)))
	}
	return all
}
