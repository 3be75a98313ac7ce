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
	Address   Owner = "address"
	Nobody    Owner = "nobody" // without a credential
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
		Resource: "payloads", Counted: "bytes over 256 KiB: parameters and results that records name",
		Whose: []Owner{Token, Tree},
		Share: "as many as are free of nine tenths of the object store's `max_bytes`; a tree half of its token's",
		Kept:  "as much as each other token has; a tenth for results; end records are in `RUNS`",
		Told:  "429 `payload_share`; 503 `payloads_full` when others have all; small runs are accepted",
		Tests: []string{"coordinator/serve.TestPayloadsDoNotStopAllWrites", "coordinator/payload.TestRoom",
			"nats/bus.TestAFullObjectStoreRefusesOnlyItsOwn"},
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
		Told:  "429 `busy`; 503 when others have all",
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
}
