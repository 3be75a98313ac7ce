package share

// Owner is who has a share of a resource.
type Owner string

// Owners of shares. Who has no token is known by the address it comes from.
const (
	Token     Owner = "token"
	Tree      Owner = "session tree"
	Run       Owner = "run"
	Worker    Owner = "worker"
	Profile   Owner = "profile"
	Publisher Owner = "publishers"
	Inbox     Owner = "inbox"
	Address   Owner = "address"
	Nobody    Owner = "nobody" // without a credential
	Receiver  Owner = "receiver of webhooks"
)

// Row is a resource that owners share.
type Row struct {
	Resource string   // what runs out
	Counted  string   // what is counted of it
	Whose    []Owner  // whose share it is
	Share    string   // how much an owner may have, with the setting
	Kept     string   // what is kept for others, and for what was accepted already
	Told     string   // what a refused one is told: status and error code
	Tests    []string // folder.TestName: they take all that an owner can get, and measure the effect on others
}

// Table has a row for each resource that owners share. The document on security is made from it.
var Table = []Row{
	{
		Resource: "payloads", Counted: "bytes over 256 KiB: parameters, results, states of conversations",
		Whose: []Owner{Token, Tree},
		Share: "as many as are free of nine tenths of the object store's `max_bytes`; a tree half of its token's",
		Kept:  "as much as each other token has; a tenth for results; end records are in `RUNS`",
		Told:  "429 `payload_share`; 503 `payloads_full` when others have all; small runs are accepted",
		Tests: []string{"coordinator/serve.TestPayloadsDoNotStopAllWrites",
			"coordinator/serve.TestResultsThatNoRecordNames", "coordinator/payload.TestRoom",
			"nats/bus.TestAFullObjectStoreRefusesOnlyItsOwn"},
	},
	{
		Resource: "the history", Counted: "bytes of kept runs in `RUNS`, and their records beyond four",
		Whose: []Owner{Token, Tree, Publisher},
		Share: "all of nine tenths of its limits but the last quarter; a tree all but the last third",
		Kept: "the last quarter, for callers with less than an eighth; the last third, for trees with less than a " +
			"sixteenth; a tenth for claims and ends",
		Told: "429 `history_share`; 503 when it is nine tenths full",
		Tests: []string{"coordinator/serve.TestOneCallerDoesNotFillTheHistory",
			"coordinator/serve.TestFullHistoryAcceptsNoRuns"},
	},
	{
		Resource: "queues", Counted: "task queues that demands have made", Whose: []Owner{Token, Publisher},
		Share: "as many as are free of `AO_MAX_QUEUES`", Kept: "as many as each other owner has; runners' own queues",
		Told:  "429 `too_many_queues`; 503 when others have all",
		Tests: []string{"coordinator/serve.TestOneCallerAndOneWorkerDoNotUseUpTheQueues"},
	},
	{
		Resource: "runners", Counted: "registered runners", Whose: []Owner{Profile},
		Share: "as many as are free of `AO_MAX_RUNNERS`", Kept: "as many as each other profile has",
		Told:  "429 `too_many_pending`; 503 when others have all",
		Tests: []string{"coordinator/runners.TestAProfileHasItsShareOfRunners"},
	},
	{
		Resource: "connections and subscriptions of NATS", Counted: "connections of all publishers, of all workers; " +
			"subscriptions of a connection", Whose: []Owner{Publisher, Worker},
		Share: "64 with 100 each; 4096 with 2500 each",
		Kept:  "the rest of `max_connections` (6000), for coordinators",
		Told:  "NATS's `maximum subscriptions exceeded`, `maximum account active connections exceeded`",
		Tests: []string{"nats/embed.TestAPublisherHasFewSubscriptions"},
	},
	{
		Resource: "memory of NATS for clients that do not read", Counted: "bytes that a connection has not read",
		Whose: []Owner{Publisher, Worker},
		Share: "16 MiB, and none after 2 s without reading (`max_pending`, `write_deadline`)",
		Kept:  "the rest",
		Told:  "cut off; it may connect again",
		Tests: []string{"nats/embed.TestAPublisherThatDoesNotReadIsCutOff"},
	},
	{
		Resource: "the table of agents' names, and registrations", Counted: "bytes", Whose: []Owner{Profile},
		Share: "as much as is free", Kept: "as much as each other profile has; names that are registered",
		Told:  "429 `too_many_pending`",
		Tests: []string{"coordinator/runners.TestAProfileHasItsShareOfNames"},
	},
	{
		Resource: "waiting runs", Counted: "accepted runs that no runner has claimed",
		Whose: []Owner{Token, Tree, Publisher, Inbox},
		Share: "a caller: as many as are free of `AO_MAX_PENDING`; a session's tree: as many as its caller has left",
		Kept: "as many as each other caller has; callbacks, later turns and retries of accepted runs are never " +
			"refused; " +
			"what is in the inbox waits there",
		Told: "429 `too_many_pending` with `share`",
		Tests: []string{"coordinator/serve.TestATokenLeavesOthersTheirPendingRuns",
			"coordinator/serve.TestTheInboxWaitsForItsShare"},
	},
	{
		Resource: "HTTP requests", Counted: "requests in progress on routes that need a token",
		Whose: []Owner{Token, Tree, Address},
		Share: "as many as are free of seven eighths of `AO_MAX_CONNECTIONS`",
		Kept:  "as many as each other owner has; `/health` and `/ready`",
		Told:  "429 `too_many_requests`; 503 when others have all",
		Tests: []string{"coordinator/serve.TestATokenLeavesOthersTheirRequests"},
	},
	{
		Resource: "HTTP requests without a token", Counted: "requests in progress on routes that need none",
		Whose: []Owner{Nobody, Address},
		Share: "256 in all, an address as many as are free; five seconds for a body",
		Kept:  "all other requests; as many as each other address has; `/health` and `/ready`",
		Told:  "429 `too_many_requests`; 503 when others have all",
		Tests: []string{"coordinator/serve.TestNobodyLeavesTheRequestsToTokens"},
	},
	{
		Resource: "HTTP connections", Counted: "connections without a request", Whose: []Owner{Nobody},
		Share: "all of `AO_MAX_CONNECTIONS`",
		Kept:  "an eighth of them: the one that has waited longest is closed first",
		Told:  "nothing, it is closed",
		Tests: []string{"coordinator/serve.TestConnectionsHaveALimit", "coordinator/serve.TestBodiesThatNeverArrive"},
	},
	{
		Resource: "memory for bodies", Counted: "bytes of bodies in progress, and of large answers",
		Whose: []Owner{Token, Tree, Address, Publisher},
		Share: "half of `AO_BODY_MEMORY`", Kept: "the other half; an eighth more for bodies of 64 KiB at most",
		Told:  "503 `unavailable`, after a wait where it may wait",
		Tests: []string{"coordinator/serve.TestManyLargeBodies", "coordinator/serve.TestManyReadersOfALargeBody"},
	},
	{
		Resource: "live streams", Counted: "open streams", Whose: []Owner{Token, Tree, Address},
		Share: "three quarters of 256", Kept: "the last quarter, for owners with fewer than 20",
		Told:  "503 `unavailable`",
		Tests: []string{"coordinator/serve.TestTokenLeavesStreamSlots"},
	},
	{
		Resource: "logins", Counted: "logins of a token, wrong tokens of an address, within a minute",
		Whose: []Owner{Token, Address},
		Share: "60 logins and 60 codes; 10 wrong tokens",
		Kept:  "a right token is checked first, and logs in all the same",
		Told:  "429 `too_many_pending`",
		Tests: []string{"coordinator/serve.TestLoginIsBounded"},
	},
	{
		Resource: "exports", Counted: "exports in progress", Whose: []Owner{Token, Tree, Address},
		Share: "as many as are free of 4", Kept: "as many as each other owner has", Told: "503 `unavailable` after 5 s",
		Tests: []string{"coordinator/httpapi.TestExportsLeaveOthersTheirShare"},
	},
	{
		Resource: "CPU time of checks", Counted: "schemas being validated", Whose: []Owner{Token, Tree, Address},
		Share: "a quarter of the CPUs", Kept: "as many for another", Told: "503 `unavailable` after 5 s",
		Tests: []string{"coordinator/httpapi.TestSchemasAreValidatedAFewAtOnce"},
	},
	{
		Resource: "deliveries of webhooks", Counted: "deliveries in progress", Whose: []Owner{Receiver},
		Share: "4 of 32", Kept: "the rest, for other receivers", Told: "nothing, it is delivered later",
		Tests: []string{"coordinator/control/webhook.TestHangingReceiverLeavesSlotsForOthers"},
	},
	{
		Resource: "requests over NATS that wait for a run", Counted: "waits", Whose: []Owner{Publisher},
		Share: "4096", Kept: "all other requests", Told: "202 with the ids",
		Tests: []string{"coordinator/serve.TestWaitingPublishersBlockNobody"},
	},
	{
		Resource: "the audit log", Counted: "refusals", Whose: []Owner{Nobody},
		Share: "of each kind of actor the first 1,000, then one in three seconds and the number of the others",
		Kept:  "all changes; wrong logins are counted apart", Told: "nothing",
		Tests: []string{"coordinator/serve.TestAFloodOfRefusals"},
	},
	{
		Resource: "memory of NATS for subjects", Counted: "messages of each stream", Whose: []Owner{Worker, Publisher},
		Share: "22 of 32 parts for `RUNS`, 7 for `EVENTS`, one each for the others, of three quarters of " +
			"`AO_NATS_MEMORY`",
		Kept:  "the tenth of `RUNS` that runs need which were accepted; one stream takes nothing of another",
		Told:  "503: the history is nine tenths full; `EVENTS`, `REJECTED` and `AUDIT` drop their oldest",
		Tests: []string{"nats/bus.TestStreamsAreBoundedInMessages", "coordinator/serve.TestFullHistoryAcceptsNoRuns"},
	},
	{
		Resource: "the stream of events", Counted: "bytes of events in a minute", Whose: []Owner{Run},
		Share: "`AO_EVENT_BYTES` (16 MiB), and a sixteenth more for metadata",
		Kept:  "events of other runs; a run's life cycle and its result are never left out",
		Told:  "a message among its events: how many were left out",
		Tests: []string{"worker.TestOneRunsEventsLeaveOthersTheirs"},
	},
}
