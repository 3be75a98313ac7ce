package subject

// Row describes a name for people. The page reference/records.md is made from the rows.
type Row struct {
	Name  string // with <placeholders>
	Body  string // of a record: its type in package run
	By    string // who writes it, of a subject
	Means string
}

// Records are the subjects of RUNS, one for each kind.
var Records = []Row{
	{"ao.runs.<p>.session.<session>", "SessionCreated", "coordinator",
		"A session begins under an id that its caller chose. The run's first record follows."},
	{"ao.runs.<p>.accepted.<session>.<run>", "Accepted", "coordinator",
		"A run waits: for its turn, or for a runner that could take it."},
	{"ao.runs.<p>.queued.<queue>.<run>.<attempt>", "Queued", "coordinator",
		"A run may be claimed now. The queue is three tokens, `<type>.<profile>.<match>`."},
	{"ao.runs.<p>.claimed.<run>.<key>", "Claim", "worker; coordinator, to end a waiting run",
		"The attempt is claimed."},
	{"ao.runs.<p>.bound.<run>.<key>", "Bound", "worker", "The executor's own session id, written before the " +
		"attempt's end record. An attempt's first one counts. The session's next run carries it; a further attempt " +
		"of the same run does not."},
	{"ao.runs.<p>.offered.<run>.<key>", "Ended", "worker; coordinator, to close the subject with the body of the " +
		"`ended` that follows", "An unverified result. Only runs with an output schema have it, when they ended " +
		"well. The lease ends with it; a coordinator checks it and appends the end record (decision 0015)."},
	{"ao.runs.<p>.stopping.<run>", "Stop", "coordinator", "A stop of a claimed run was requested."},
	{"ao.runs.<p>.tree.<session>.<run>", "TreeStop", "coordinator", "Everything below the session is to be stopped, " +
		"and all of the session or one run. The name has the session's last claimed run, else its first. The record " +
		"is void where a later run was claimed before it (decision 0036)."},
	{"ao.runs.<p>.ended.<run>.<key>", "Ended", "worker; coordinator, when a lease is lost, a waiting run ends, or a " +
		"result was checked", "The attempt's end record. Under the key of attempt 0 it ends the run: NATS cannot " +
		"read what is in its place (decision 0045)."},
	{"ao.runs.<p>.callback.<parent>.<child>[-<n>]", "Callback", "coordinator", "Which ended children a turn of their " +
		"parent reports, named after the first of them (decision 0014). It comes in one atomic batch before that " +
		"turn's `accepted`, or by itself (decision 0033). With `suppressed`, `run_id` is an earlier claimed run of " +
		"the parent."},
	{"ao.runs.<p>.notified.<run>.<n>", "Notified", "coordinator", "The n-th step of the run's webhook delivery."},
	{"ao.runs.<p>.deleted.<session>", "Deleted", "coordinator", "A session and all of it is deleted."},
}

// Messages are the other subjects: those of streams, and requests.
var Messages = []Row{
	{"ao.events.<p>.<session>.<run>.<kind>", "", "worker", "Stream `EVENTS`: what a session's readers see. Kinds: " +
		"`message`, `pre_tool`, `post_tool`, `metadata` (`{\"metadata\":{\"cost_usd\":0.1}}`, facts about the run), " +
		"and `pack` for several of them."},
	{InboxRuns, "", "publisher", "Stream `INBOX`, a work queue: takes runs while no coordinator is up. The body is " +
		"that of `POST /runs`, without mode sync."},
	{RejectedRuns, "", "coordinator, worker", "Stream `REJECTED`: inbox messages that were refused, and messages " +
		"that cannot be read. The header `Ao-Reason` has the reason, `Ao-Subject` the subject. `Ao-Bytes` is the " +
		"length of the body, whose end is left out where the headers leave no room. `ao rejected` lists them."},
	{AuditEntries, "", "coordinator", "Stream `AUDIT`: who changed what, several entries in one message: " +
		"`{\"v\":1,\"entries\":[…],\"lost\":{\"after\",\"before\",\"count\"}}`. `lost`: how many entries are missing " +
		"before them."},
	{RestoringSubject, "", "nobody", "Stream `RESTORING`, without messages. It exists while a restore has not " +
		"finished; coordinators use nothing then."},
	{APIRunsCreate, "", "publisher", "Request: the body of `POST /runs`. Headers `Idempotency-Key`, else " +
		"`Nats-Msg-Id`."},
	{APIRunsGet, "", "publisher", "Request: `{\"run_id\":\"run_…\"}` or the bare id. The result of an ended run is " +
		"beside the run."},
	{APIRunsStop, "", "publisher", "Request: the same, and `\"tree\":true` as in HTTP."},
	{APIAgentsList, "", "publisher", "Request without a body: the agents."},
	{RunnerAPI("register"), "Registration", "worker", "Request: a worker's identity, agents and models. The answer " +
		"is a `Registered`."},
	{Register("<type>", "<profile>"), "Registration", "worker", "The same, where NATS has users. The permission to " +
		"be a profile is this subject."},
	{RunnerAPI("deregister"), "Deregistration", "worker", "Request: the runner is gone, or finishes its runs. " +
		"Forbidden for any process but the registered one, and for an empty instance."},
	{RunnerAPI("payload_get"), "PartRequest", "worker", "Request: a part's bytes."},
	{RunnerAPI("payload_put"), "PartRequest", "worker", "Request: stores a part. An attempt may write its result " +
		"(`<run>.<attempt>.out`) or state while it is under way, and nothing else."},
	{RunnerAPI("state_drop"), "PartRequest", "worker", "Request: drops the state `name`, which the session is no " +
		"longer bound to."},
	{RunnerAPI(OpRecord), "", "worker", "Request: `{\"subject\"}` of a `claimed`, `bound`, `offered` or `ended`, " +
		"with its key. The answer is the record there, `{\"seq\",\"body\",\"at\"}` (body in base64), or an error of " +
		"kind not_found. Used only where NATS requires a login; elsewhere a worker reads the record itself."},
	{Heartbeats("<runner>"), "Heartbeat", "worker", "Request: attempts alive. Every coordinator receives it; the " +
		"first answer counts, a `HeartbeatReply`. Forbidden if the body names another runner, or the registered " +
		"instance without its secret."},
	{Commands("<runner>"), "Command", "coordinator", "Request to a worker, which answers a `CommandReply`. A worker " +
		"subscribes when it is registered and before it claims a run."},
	{CommandsFor("<door>", "<runner>"), "Command", "coordinator", "The same, where the worker registered with a " +
		"`door`: the first 20 characters of its public nkey."},
}

// Stores are the key-value buckets and the object store, with their keys.
var Stores = []Row{
	{Agents, "", "", "name → definition"},
	{Schemas, "", "", "name → named output schema"},
	{Runners, "", "", "runner id → registration. With `leaving` its process ends. With `left_at` it has " +
		"left and the names of its agents are reserved (decision 0032). `_owners` → who owns which agent name " +
		"(decision 0007)"},
	{TaskQueues, "", "", "queue → what its runs demand, and as `caller` whose share of `AO_MAX_QUEUES` it " +
		"counts to (decision 0031)"},
	{Reservations, "", "", "`try.RUN.N` → who makes that try of a webhook. Hash of scope and key → the " +
		"runs of a bulk retry. Programs of older versions keep idempotency keys here (decision 0054)"},
	{Secrets, "", "", "`attempts` → the deployment's secret. `last_backup` → when the last whole backup " +
		"began, RFC 3339"},
	{Logins, "", "", "id of a login that has ended, or of a code that was used; kept for 13 hours " +
		"(decision 0040)"},
	{Drafts, "", "", "agent and `input` or `output` → the text of a schema that is being written. Deleted " +
		"with the agent; 64 MiB together at most"},
	{HighWater, "", "", "`" + MarkKey + "` → the high-water mark of `RUNS`: `incarnation`, `sequence`, " +
		"`records`, the fingerprints of the last records, who removes records now, `damages` (decision 0045). `" +
		RestoredKey + "` → the incarnation that `ao restore` made; `" + MarkKey + "` is then the backup's " +
		"mark until a coordinator has read its damages"},
	{Payloads, "", "", "the object store: parts of large bodies (decision 0008)"},
}
