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

	"ao/coordinator/control/versions"
	"ao/coordinator/health"
	"ao/coordinator/highwater"
	"ao/coordinator/payload"
	"ao/coordinator/projection/query"
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
		Counts() (waiting, claimed, ended int)
		Callbacks(ctx context.Context, q query.Query) (query.CallbackPage, error)
	}
	Past    interface{ WaitOwnWrites(ctx context.Context) }
	Members func() []runnerapi.Member
	Agents  interface {
		Agents(status string) ([]agent.Blueprint, error)
		BrokenFiles(ctx context.Context) []agent.BrokenFile
		UnusedFiles() map[string]agent.UnusedFile
	}
	BrokenSchemas func(ctx context.Context) []agent.BrokenFile // files of named schemas that cannot be used
	Waits         interface{ UnmatchedQueues() map[string]time.Time }
	Damages       func() []highwater.Damage
	Ready         func() error
	NoMatch       time.Duration // how long a run waits for a runner before it fails
	MaxPending    int           // most waiting runs
}

// Check checks what every coordinator sees: NATS and its streams, runners, queues, agents, callbacks.
func (d *Doctor) Check(ctx context.Context) []health.Result {
	d.Past.WaitOwnWrites(ctx)
	var all []health.Result
	if err := d.NATS.Storage(); err != nil {
		all = append(all, health.Failed("nats-storage", "free space on the disk of NATS, then restart an external "+
			"server (an embedded one continues by itself): nothing that was accepted is lost", "%s", fault.Of(
			err).Message))
	} else if err := d.Ready(); err != nil {
		all = append(all, health.Failed("ready", "check the coordinator's log, and whether NATS runs",
			"this coordinator is not ready: %v", err))
	}
	s, err := d.NATS.ServerHealth(ctx)
	if err != nil {
		all = append(all, health.Failed("nats", "start NATS, or correct AO_NATS_URL and AO_NATS_CREDS",
			"NATS does not answer: %v", err))
	} else {
		all = append(all, health.NATS(s.Version), health.Clock("the clock of NATS", s.ClockOffset, s.ClockError))
		all = append(all, replicas(s))
		all = append(all, fill(s.Streams)...)
		all = append(all, memory(s))
		all = append(all, rollups(s.Streams)...)
		all = append(all, refused(s.Streams, time.Now())...)
		if s.MaxStore > 0 {
			all = append(all, health.Store(s.Limits(), s.Used(), s.MaxStore, 0))
		}
	}
	all = append(all, d.damages()...)
	runners, versions := d.checkRunners()
	all = append(append(all, runners...), d.checkVersions(ctx, versions))
	all = append(all, d.checkQueues(), d.checkPending())
	all = append(append(all, d.checkAgents(ctx)...), d.checkSchemas(ctx)...)
	return append(all, d.checkCallbacks(ctx)...)
}

// rollups checks that no message can replace a record of RUNS. A schedule or a marker's TTL switches that on.
func rollups(streams []bus.StreamHealth) (all []health.Result) {
	for _, s := range streams {
		if s.Name == subject.Runs && s.Rollups {
			all = append(all, health.Failed("streams", "switch it off ('nats stream edit RUNS "+
				"--no-allow-rollup') and run 'ao verify': records could be replaced meanwhile",
				"stream RUNS allows rollups: it does not refuse a second message of a subject"))
		}
	}
	return all
}

// refusedLately is how long a refusal is warned of.
const refusedLately = 24 * time.Hour

// refused reports whether messages of the inbox were refused. Nobody else may tell their publishers.
func refused(streams []bus.StreamHealth, now time.Time) (all []health.Result) {
	for _, s := range streams {
		switch {
		case s.Name != subject.Rejected:
		case s.Msgs > 0 && now.Sub(s.LastTime) < refusedLately:
			all = append(all, health.Warned("inbox", "'ao rejected' lists them with the reasons: correct what is "+
				"published, and publish it again", "%d refused messages are kept, the last one of %s", s.Msgs,
				s.LastTime.UTC().Format(time.RFC3339)))
		default:
			all = append(all, health.Passed("inbox", "no message was refused within %v", refusedLately))
		}
	}
	return all
}

// damages reports whether records are lost, and nobody has accepted that.
func (d *Doctor) damages() (all []health.Result) {
	for _, damage := range d.Damages() {
		if damage.AcceptedAt == nil {
			all = append(all, health.Failed("history", "run 'ao verify'; then restore a backup, or go on with what "+
				"is left ('ao verify --accept-damage')", "%s", damage.Message))
		}
	}
	if len(all) == 0 {
		all = append(all, health.Passed("history", "no records are missing"))
	}
	return all
}

// replicas checks how many servers keep each record.
func replicas(s bus.ServerHealth) health.Result {
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
		return health.Passed("replicas", "a single NATS server: one copy of everything")
	case least < 2:
		return health.Warned("replicas", "set AO_NATS_REPLICAS=3 for all coordinators and restart them",
			"NATS is a cluster, but every record is on only one of its servers")
	case len(behind) > 0:
		return health.Warned("replicas", "start these servers and wait until they have caught up; stop no other one "+
			"meanwhile ('nats stream report')", "%d replicas, some of them missing or incomplete: %s", least,
			strings.Join(slices.Sorted(maps.Keys(behind)), ", "))
	case least%2 == 0:
		return health.Warned("replicas", "set AO_NATS_REPLICAS=3: two replicas need both servers, so they fail more "+
			"easily than one", "%d replicas", least)
	}
	return health.Passed("replicas", "%d replicas, all complete", least)
}

// fill checks how full the streams are. RUNS refuses new runs at nine tenths; streams that drop old entries are meant
// to be full.
func fill(streams []bus.StreamHealth) (all []health.Result) {
	for _, s := range streams {
		advice := fmt.Sprintf("raise the stream's limit, such as to the double ('nats stream edit %s "+
			"--max-bytes=%dMiB'), or keep less (RUN_RETENTION, RUN_KEEP)", s.Name, s.MaxBytes>>20*2)
		summary := fmt.Sprintf("stream %s holds %s", s.Name, health.Size(s.Bytes))
		if s.MaxBytes > 0 {
			summary += " of " + health.Size(s.MaxBytes)
		}
		if s.MaxMsgs > 0 {
			summary += fmt.Sprintf(", %d of %d messages", s.Msgs, s.MaxMsgs)
			if s.RejectsWhenFull && s.Msgs >= s.MaxMsgs/10*9 {
				advice = "keep less (RUN_RETENTION, RUN_KEEP), or give NATS more memory (AO_NATS_MEMORY)"
			}
		}
		refused, minor := "new runs are refused", false
		switch {
		case s.Name == payload.Stream:
			refused = "new runs with large parameters are refused"
		case strings.HasPrefix(s.Name, "KV_"):
			refused, minor = "what is stored there is soon refused", true
		}
		switch {
		case s.RejectsWhenFull && s.MaxMsgs > 0 && s.Msgs >= s.MaxMsgs/10*9:
			all = append(all, health.Failed("streams", advice, "%s: %s", summary, refused))
		case s.MaxBytes == 0:
			all = append(all, health.Warned("streams", "set a limit ('nats stream edit --max-bytes')", "%s and has no "+
				"limit: it may fill NATS (max_file_store), and stop all writes", summary))
		case !s.RejectsWhenFull:
			all = append(all, health.Passed("streams", "%s", summary))
		case s.Bytes >= s.MaxBytes/10*9:
			all = append(all, health.Failed("streams", advice, "%s: %s", summary, refused))
		case s.Bytes >= s.MaxBytes/4*3, s.Name == subject.Runs && s.Bytes >= s.MaxBytes/5*3:
			all = append(all, health.Warned("streams", advice, "%s", summary))
		case !minor:
			all = append(all, health.Passed("streams", "%s", summary))
		}
	}
	return all
}

// memory checks that what the streams may hold fits into the memory of NATS: each subject takes some of it.
func memory(s bus.ServerHealth) health.Result {
	var most uint64
	for _, one := range s.Streams {
		if bus.Messages(one.Name, s.Memory) == 0 {
			continue // a bucket: coordinators write there, and it has a limit of bytes
		}
		if one.MaxMsgs == 0 {
			return health.Warned("nats-memory", "start a coordinator of this version, which sets a limit, or set one "+
				"('nats stream edit "+one.Name+" --max-msgs')", "stream %s has no limit of messages: whoever writes "+
				"there takes NATS's memory, also after a restart", one.Name)
		}
		most += one.MaxMsgs
	}
	needed, has := most*bus.SubjectMemory, uint64(s.Memory)
	if needed > has/10*8 {
		return health.Warned("nats-memory", "give NATS more memory and set AO_NATS_MEMORY to it, or lower the limits "+
			"('nats stream edit RUNS --max-msgs')", "the streams may hold %d messages: with a subject each that is %s "+
			"of memory, and NATS has %s (AO_NATS_MEMORY)", most, health.Size(needed), health.Size(has))
	}
	return health.Passed("nats-memory", "the streams may hold %d messages: at most %s of the %s of memory that NATS "+
		"has (AO_NATS_MEMORY)", most, health.Size(needed), health.Size(has))
}

// checkRunners also returns how many online runners have which version.
func (d *Doctor) checkRunners() (all []health.Result, versions map[string]int) {
	online, missing, open, unnamed, versions := 0, []string{}, []string{}, []string{}, map[string]int{}
	var unable, invents, models []string
	for _, m := range d.Members() {
		name := fmt.Sprintf("%s on %s (%s)", m.ExecutorProfile, m.Hostname, m.ID)
		if m.Status == runnerapi.Left { // only its agents' names are kept
			continue
		}
		if m.Silent > 0 || m.Status == runnerapi.Stale || m.Status == runnerapi.Removed {
			missing = append(missing, fmt.Sprintf("%s for %v", name, time.Since(m.LastHeartbeat).Round(time.Second)))
			continue
		}
		online++
		switch {
		case m.ExecutorType != run.Autonomous:
		case m.ExecutorProfile == "test":
			invents = append(invents, name)
		default:
			models = append(models, name)
		}
		if m.Shown() == runnerapi.StatusUnable {
			unable = append(unable, fmt.Sprintf("%s: %s", name, m.Why()))
		}
		if m.ReadableSecret != "" {
			open = append(open, fmt.Sprintf("%q of runner %s", m.ReadableSecret, name))
		}
		if m.CredentialUnknown {
			unnamed = append(unnamed, name)
		}
		versions[cmp.Or(m.Version, version.Unknown)]++
		if m.ClockKnown {
			// its heartbeat took a while
			if f := health.Clock("the clock of runner "+name, m.ClockOffset,
				500*time.Millisecond); f.Verdict != health.OK {
				all = append(all, f)
			}
		}
	}
	if online > 0 && len(all) == 0 {
		all = append(all, health.Passed("clocks", "the clocks of all runners agree with the coordinator's"))
	}
	if len(open) > 0 {
		all = append(all, health.Failed("worker-secrets", "hide the file from programs: set AO_HIDE of that worker "+
			"to it or a folder above (Linux with Landlock), or give the profile a sandbox", "executor programs can "+
			"read the login of their worker or of another program, and so have its permissions: %s", firstFew(open)))
	}
	switch {
	case len(missing) > 0:
		all = append(all, health.Warned("runners", "check that these workers run and reach NATS; a runner that is "+
			"gone for good is removed after a while, or by 'ao runners delete'", "no heartbeat: %s", firstFew(missing)))
	case online == 0:
		all = append(all, health.Warned("runners", "start a worker: without runners no run starts",
			"there are no runners"))
	case len(unable) == 0:
		all = append(all, health.Passed("runners", "%d online, all send heartbeats", online))
	}
	if len(unable) > 0 {
		all = append(all, health.Failed("runners", "do on that host what the reason says; the runner looks again by "+
			"itself, within five minutes, and at once when a file changes", "runners that cannot work and take no "+
			"runs: %s", firstFew(unable)))
	}
	if len(invents) > 0 && len(models) > 0 {
		all = append(all, health.Warned("test-workers", "stop the workers of the profile test (compose: "+
			"AO_TEST_WORKERS=0), or give agents an executor_profile", "%s takes runs of agents without an "+
			"executor_profile and invents answers, beside %s", firstFew(invents), firstFew(models)))
	}
	if len(unnamed) > 0 {
		all = append(all, health.OutdatedUsers("heartbeats of "+firstFew(unnamed)))
	}
	return all, versions
}

// surveyTime is how long coordinators have to report their version.
const surveyTime = 300 * time.Millisecond

// checkVersions asks all coordinators for their versions and compares them with those of the runners.
func (d *Doctor) checkVersions(ctx context.Context, runners map[string]int) health.Result {
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
func judgeVersions(coordinators, runners map[string]int) health.Result {
	summary := "coordinators: " + countVersions(coordinators)
	if len(runners) > 0 {
		summary += "; runners: " + countVersions(runners)
	}
	known := maps.Clone(coordinators)
	maps.Copy(known, runners)
	delete(known, version.Unknown)
	if len(known) > 1 {
		return health.Warned("versions", "update all to one version: coordinators first, then workers", "%s", summary)
	}
	return health.Passed("versions", "%s", summary)
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
func (d *Doctor) checkQueues() health.Result {
	var unserved []string
	for queue, since := range d.Waits.UnmatchedQueues() {
		unserved = append(unserved, fmt.Sprintf("%s for %v", queue, time.Since(since).Round(time.Second)))
	}
	if len(unserved) > 0 {
		slices.Sort(unserved)
		return health.Warned("queues", fmt.Sprintf("start workers that match these runs (see 'ao explain RUN'); "+
			"without one they fail after %v (RUN_NO_MATCH_TIMEOUT)", d.NoMatch), "runs wait for runners that are not "+
			"online: %s", firstFew(unserved))
	}
	return health.Passed("queues", "every queue with waiting runs has a runner")
}

func (d *Doctor) checkPending() health.Result {
	waiting, _, _ := d.History.Counts()
	if waiting*8 >= d.MaxPending*3 { // three quarters of what one caller may have
		return health.Warned("waiting", "start more workers, or raise AO_MAX_PENDING: beyond it new runs get 429",
			"%d runs wait, of at most %d", waiting, d.MaxPending)
	}
	return health.Passed("waiting", "%d runs wait, of at most %d", waiting, d.MaxPending)
}

func (d *Doctor) checkSchemas(ctx context.Context) (all []health.Result) {
	for i, b := range d.BrokenSchemas(ctx) {
		if i == maxNamed {
			return append(all, health.Failed("schemas", "'ao schemas' lists them all", "and more"))
		}
		all = append(all, health.Failed("schemas", "fix the file: it is read whenever it is needed",
			"schema %s (%s) cannot be used: %s", b.Name, b.Path, b.Reason))
	}
	return all
}

func (d *Doctor) checkAgents(ctx context.Context) (all []health.Result) {
	for _, b := range d.Agents.BrokenFiles(ctx) {
		if len(all) == maxNamed {
			return append(all, health.Failed("agents", "'ao agents --status broken' lists them all", "and more"))
		}
		where, advice := b.Path, "fix the file: it is read again when it changes"
		if b.Path == "" {
			where, advice = "a definition", "change the agent, or create the schema that it names"
		}
		if b.RunnerID != "" {
			where += " of " + b.RunnerID
		}
		all = append(all, health.Failed("agents", advice, "agent %s (%s) is broken: %s", b.Name, where, b.Reason))
	}
	if len(all) == 0 {
		list, _ := d.Agents.Agents("")
		all = append(all, health.Passed("agents", "all %d load", len(list)))
	}
	return append(all, d.checkUnused()...)
}

// checkUnused checks for files of agents that were changed to no effect: the agent was edited here.
func (d *Doctor) checkUnused() (all []health.Result) {
	files := d.Agents.UnusedFiles()
	var unused []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if files[name].Changed {
			unused = append(unused, name+" ("+files[name].Path+")")
		}
	}
	if len(unused) > 0 {
		all = append(all, health.Warned("agents", "'ao agents reset AGENT' takes the file; what was edited here is "+
			"lost then", "agents were edited here, so changes of their files have no effect: %s", firstFew(unused)))
	}
	return all
}

// callbackWarning is how long a callback may be pending.
const callbackWarning = 15 * time.Minute

func (d *Doctor) checkCallbacks(ctx context.Context) []health.Result {
	const most = 1000
	pending, err := d.History.Callbacks(ctx, query.Query{Statuses: []string{run.CallbackPending}, Limit: most})
	if err != nil {
		return []health.Result{health.Skipped("callbacks", "try again", "pending callbacks cannot be read: %v", err)}
	}
	dead, err := d.History.Callbacks(ctx, query.Query{Statuses: []string{run.CallbackDead}, Limit: most})
	if err != nil {
		return []health.Result{health.Skipped("callbacks", "try again", "dead callbacks cannot be read: %v", err)}
	}
	return judgeCallbacks(pending.Runs, len(dead.Runs), time.Now())
}

// judgeCallbacks judges runs with pending callbacks, and the number of dead callbacks.
func judgeCallbacks(pending []run.Run, dead int, now time.Time) (all []health.Result) {
	late := 0
	var first time.Time
	for _, r := range pending {
		if r.EndedAt != nil && now.Sub(*r.EndedAt) > callbackWarning {
			late++
			if first.IsZero() || r.EndedAt.Before(first) {
				first = *r.EndedAt
			}
		}
	}
	if late > 0 {
		all = append(all, health.Warned("callbacks", "'ao callbacks --status owed' lists them; check whether the "+
			"parent session is busy, or the receiver answers", "%d pending for more than %v, the oldest since %s", late,
			callbackWarning, first.UTC().Format(time.RFC3339)))
	}
	if dead > 0 {
		all = append(all, health.Warned("callbacks", "'ao callbacks --status dead' lists them; 'ao callbacks "+
			"redeliver RUN' tries one again", "%d failed in all attempts", dead))
	}
	if len(all) == 0 {
		all = append(all, health.Passed("callbacks", "%d pending, none for long", len(pending)))
	}
	return all
}
