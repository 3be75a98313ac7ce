package config

import (
	"math"
	"net/netip"
	"time"
)

// Embed as AO_NATS_URL runs NATS inside the process.
const Embed = "embed"

// The settings of all programs.
var (
	NATSURL = Setting[string]{Env: "AO_NATS_URL", Flag: "nats-url", Default: "nats://127.0.0.1:4222", Read: natsURL,
		Doc: `URL of the NATS server; "embed": run it inside this process (allinone, coordinator)`}
	NATSListen = Setting[string]{Env: "AO_NATS_LISTEN", Flag: "nats-listen", Default: "127.0.0.1:4222",
		Read: addressOr("none"),
		Doc:  `address an embedded NATS listens on; "none": in-process connections only`}
	NATSUsers = Setting[string]{Env: "AO_NATS_USERS", Flag: "nats-users", Example: "/etc/ao/nats/users.conf",
		Read: text,
		Doc: "users of an embedded NATS and their permissions: the file nats/users.conf that 'ao init' creates; " +
			"required to listen beyond loopback"}
	NATSCreds = Setting[string]{Env: "AO_NATS_CREDS", Flag: "nats-creds", Example: "/etc/ao/worker/nats.nk", Read: text,
		Doc: "credential for NATS: a file with an nkey seed, as 'ao init' creates it, or a .creds file"}
	NATSCA = Setting[string]{Env: "AO_NATS_CA", Flag: "nats-ca", Example: "/etc/ao/worker/ca.crt", Read: text,
		Doc: "authorities to trust for NATS instead of the system's (PEM)"}
	NATSCert = Setting[string]{Env: "AO_NATS_CERT", Flag: "nats-cert", Example: "/etc/ao/worker/nats.crt", Read: text,
		Doc: "client certificate for a NATS that requires one (PEM); with AO_NATS_KEY"}
	NATSKey = Setting[string]{Env: "AO_NATS_KEY", Flag: "nats-key", Example: "/etc/ao/worker/nats.key", Read: text,
		Doc: "private key of AO_NATS_CERT (PEM)"}
	NATSSync = Setting[string]{Env: "AO_NATS_SYNC", Flag: "nats-sync", Default: "always", Example: "2m", Read: natsSync,
		Doc: `when an embedded NATS syncs to disk: "always" (before each acknowledgement), or an interval`}
	NATSStaging = Setting[string]{Env: "AO_NATS_STAGING", Flag: "nats-staging", Default: "memory", Example: "disk",
		Read: oneOf("memory", "disk"),
		Doc:  `where an embedded NATS stages batches before it commits them; acknowledged data is never there alone`}
	NATSReplicas = Setting[int]{Env: "AO_NATS_REPLICAS", Flag: "nats-replicas", Default: "1", Example: "3",
		Read: wholeNumber(1, 5),
		Doc:  "replicas of the streams, in a NATS cluster"}
	NATSMemory = Setting[int64]{Env: "AO_NATS_MEMORY", Flag: "nats-memory", Example: "4GiB",
		Read: size(64<<20, 1<<50),
		Doc: "memory of the NATS server, which bounds the messages of its streams, since each subject takes some; " +
			"default: 2GiB, embedded half of this process's (GOMEMLIMIT, else that of its container or machine)"}
	DataDir = Setting[string]{Env: "AO_DATA_DIR", Flag: "data-dir", Default: ".ao", Read: text,
		Doc: "folder for the data of an embedded NATS, checkpoints, keys and conversation caches"}

	HTTPAddr = Setting[string]{Env: "AO_HTTP_ADDR", Flag: "http-addr", Default: "127.0.0.1:8765", Read: address,
		Doc: "address the coordinator's HTTP API listens on"}
	InsecureListen = Setting[bool]{Env: "AO_INSECURE_LISTEN", Flag: "insecure-listen", Default: "no", Example: "yes",
		Read: yesOrNo,
		Doc:  "allow listening beyond loopback without authentication: anyone who can reach it can do everything"}
	APITokens = Setting[string]{Env: "AO_API_TOKENS", Flag: "api-tokens", Example: "/etc/ao/tokens", Read: text,
		Doc: "file with the hashes of API tokens ('ao tokens' creates it); without it, anyone who can reach the API " +
			"can do everything"}
	PublicURL = Setting[string]{Env: "AO_PUBLIC_URL", Flag: "public-url", Example: "http://coordinator:8765",
		Read: httpURL,
		Doc:  "URL at which workers and other clients reach the HTTP API; default: the listen address"}
	TLSCert = Setting[string]{Env: "AO_TLS_CERT", Flag: "tls-cert", Example: "/etc/ao/tls.crt", Read: text,
		Doc: "certificate of the HTTP API (PEM, followed by its chain); enables https; reloaded when it " +
			"changes; with AO_TLS_KEY"}
	TLSKey = Setting[string]{Env: "AO_TLS_KEY", Flag: "tls-key", Example: "/etc/ao/tls.key", Read: text,
		Doc: "private key of the HTTP API's certificate (PEM)"}
	CA = Setting[string]{Env: "AO_CA", Flag: "ca", Example: "/etc/ao/ca.crt", Read: text,
		Doc: "authorities to trust for the HTTP API besides the system's (PEM)"}
	PrivateNetwork = Setting[bool]{Env: "AO_PRIVATE_NETWORK", Flag: "private-network", Default: "no", Example: "yes",
		Read: yesOrNo,
		Doc: "the network beyond loopback is private, such as a container network on one machine: 'ao doctor' " +
			"does not ask for TLS"}
	AuditLog = Setting[string]{Env: "AO_AUDIT_LOG", Flag: "audit-log", Example: "/var/log/ao/audit.jsonl", Read: text,
		Doc: `file for the audit log, one JSON line per entry, reopened at SIGHUP; ` +
			`"log": use the program's log; default: none`}
	AuditStream = Setting[bool]{Env: "AO_AUDIT_STREAM", Flag: "audit-stream", Default: "yes", Example: "no",
		Read: inverted(yesOrNo),
		Doc:  "keep the audit log in NATS, at most 30 days and 64 MiB, for GET /audit and 'ao audit'"}
	AgentsDirs = Setting[[]string]{Env: "AGENT_ORCHESTRATOR_AGENTS_DIR", Flag: "agents-dir",
		Example: "agents:more/agents", Read: folders,
		Doc: "folders of coordinator-owned agents, separated by ':'"}
	AgentsWritable = Setting[bool]{Env: "AO_AGENTS_WRITABLE", Flag: "agents-writable", Default: "no", Example: "yes",
		Read: yesOrNo,
		Doc:  "allow the API to change and delete the files of coordinator-owned agents"}
	AgentsSeed = Setting[string]{Env: "AO_AGENTS_SEED", Flag: "agents-seed", Example: "/etc/ao/agents/autonomous",
		Read: text,
		Doc: "folder of agents to copy into the first folder of AGENT_ORCHESTRATOR_AGENTS_DIR, or into agents " +
			"in AO_DATA_DIR; unmodified copies are updated"}
	SchemasDir = Setting[string]{Env: "AO_SCHEMAS_DIR", Flag: "schemas-dir", Example: "/etc/ao/schemas", Read: text,
		Doc: "folder of named schemas, one NAME.json each, read whenever one is named; all coordinators need the " +
			"same files"}
	MaxPending = Setting[int]{Env: "AO_MAX_PENDING", Flag: "max-pending", Default: "100000",
		Read: wholeNumber(1, math.MaxInt32),
		Doc: "maximum number of waiting runs; one caller may have at most as many as are free; beyond it new runs " +
			"get 429"}
	BodyMemory = Setting[int64]{Env: "AO_BODY_MEMORY", Flag: "body-memory", Example: "512MiB",
		Read: size(1<<20, 1<<40),
		Doc: "memory for request bodies in progress, and as much again for large responses; beyond it 503; " +
			"default: an eighth of GOMEMLIMIT, else 256MiB"}
	MaxDepth = Setting[int]{Env: "AO_MAX_DEPTH", Flag: "max-depth", Default: "8",
		Read: negativeZero(wholeNumber(0, 250)),
		Doc:  "maximum number of ancestors of a session; deeper ones get 400 too_deep; 0: no run may have children"}
	MaxQueues = Setting[int]{Env: "AO_MAX_QUEUES", Flag: "max-queues", Default: "256", Read: wholeNumber(1, 1000),
		Doc: "maximum number of queues for special demands, and as many for runner-owned agents; one caller or " +
			"profile may have at most as many as are free"}
	MaxRunners = Setting[int]{Env: "AO_MAX_RUNNERS", Flag: "max-runners", Default: "4096",
		Read: wholeNumber(1, 100_000),
		Doc:  "maximum number of registered runners; one profile may have at most as many as places are free"}
	MaxPayload = Setting[int64]{Env: "AO_MAX_PAYLOAD", Flag: "max-payload", Default: "16MiB", Read: size(1<<10, 1<<30),
		Doc: "maximum size of a run's parameters or result"}
	MaxConnections = Setting[int]{Env: "AO_MAX_CONNECTIONS", Flag: "max-connections", Example: "2000",
		Read: wholeNumber(16, 1_000_000),
		Doc: "maximum number of connections to the HTTP API; beyond it idle ones are closed first; one caller may " +
			"have at most as many requests in progress as are free; default: half of the open-file limit, at most " +
			"10000"}
	SchemaRetries = Setting[int]{Env: "SCHEMA_ENFORCEMENT_MAX_RETRIES", Flag: "schema-enforcement-max-retries",
		Default: "2", Read: negativeZero(wholeNumber(0, 10)),
		Doc: "how often a session is asked again when its answer does not match the output schema"}
	SchemaWhole = Setting[bool]{Env: "SCHEMA_ENFORCEMENT_EXTRACT_JSON", Flag: "schema-enforcement-extract-json",
		Default: "true", Example: "false", Read: inverted(yesOrNo),
		Doc: "look for JSON in answers that contain other text; false: the whole answer must be JSON"}
	CallbackHosts = Setting[[]string]{Env: "AO_CALLBACK_HOSTS", Flag: "callback-hosts",
		Example: "hooks.example.com,*.example.org", Read: wordList,
		Doc: `hosts that callback_url may name, a comma list; "*": any public host; empty: none`}
	CallbackNetworks = Setting[[]netip.Prefix]{Env: "AO_CALLBACK_NETWORKS", Flag: "callback-networks",
		Example: "10.1.0.0/16", Read: networks,
		Doc: "private networks in which webhook receivers may be, a comma list"}
	CallbackSecret = Setting[string]{Env: "AO_CALLBACK_SECRET", Flag: "callback-secret",
		Example: "whsec_ and 24 to 64 bytes as base64", Read: text, Secret: true,
		Doc: "key that signs webhooks (Standard Webhooks); several, separated by spaces, during a rotation"}
	RunLease = Setting[time.Duration]{Env: "RUN_LEASE", Flag: "run-lease", Default: "15",
		Example: "15, or RUN_LEASE=1m30s", Read: duration(time.Second),
		Doc: "how long a worker may go without a heartbeat for a run before the run is failed"}
	RunNoMatchTimeout = Setting[time.Duration]{Env: "RUN_NO_MATCH_TIMEOUT", Flag: "run-no-match-timeout",
		Default: "300", Read: duration(time.Second),
		Doc: "how long a run waits for a matching runner before it fails"}
	RunRetention = Setting[time.Duration]{Env: "RUN_RETENTION", Flag: "run-retention", Default: "168h",
		Read: duration(time.Minute),
		Doc:  "how long history and idempotency keys are kept; RUN_KEEP may remove runs earlier"}
	RunKeep = Setting[int]{Env: "RUN_KEEP", Flag: "run-keep", Default: "1000000", Read: wholeNumber(1, math.MaxInt32),
		Doc: "maximum number of ended runs to keep, even within RUN_RETENTION"}
	RunnerHeartbeat = Setting[time.Duration]{Env: "RUNNER_HEARTBEAT_INTERVAL", Flag: "runner-heartbeat-interval",
		Default: "60", Read: duration(time.Second),
		Doc: "how often a runner must send a heartbeat at least"}
	RunnerStale = Setting[time.Duration]{Env: "RUNNER_STALE_THRESHOLD", Flag: "runner-stale-threshold",
		Default: "120", Read: duration(time.Second),
		Doc: "time without a heartbeat after which a runner is stale"}
	RunnerRemove = Setting[time.Duration]{Env: "RUNNER_REMOVE_THRESHOLD", Flag: "runner-remove-threshold",
		Default: "600", Read: duration(time.Second),
		Doc: "time without a heartbeat after which a runner is removed"}

	ProfilesDir = Setting[string]{Env: "AO_PROFILES_DIR", Flag: "profiles-dir", Example: "worker/profiles",
		Read: folder,
		Doc:  "folder of the executor profiles (<name>.json)"}
	Profiles = Setting[[]string]{Env: "AO_PROFILES", Flag: "profiles", Short: "x", Example: "procedural",
		Read: wordList,
		Doc:  "profiles that a worker runs, a comma list"}
	ProjectDir = Setting[string]{Env: "AO_PROJECT_DIR", Flag: "project-dir", Default: ".", Read: folder,
		Doc: "default working directory of a worker's runs; part of the runner's identity"}
	Hostname = Setting[string]{Env: "AO_HOSTNAME", Flag: "hostname", Example: "crawler-1", Read: text,
		Doc: "hostname of the runner; default: this machine's; part of the runner's identity"}
	Tags = Setting[[]string]{Env: "AO_TAGS", Flag: "tags", Example: "gpu,linux", Read: wordList,
		Doc: "tags of a worker's runners, a comma list"}
	RequireMatchingTags = Setting[bool]{Env: "AO_REQUIRE_MATCHING_TAGS", Flag: "require-matching-tags",
		Default: "no", Example: "yes", Read: yesOrNo,
		Doc: "accept only runs that demand one of the tags"}
	APIURL = Setting[string]{Env: "AO_API_URL", Flag: "api-url", Example: "http://coordinator:8765", Read: httpURL,
		Doc: "URL of the HTTP API and MCP server for a worker's executors, through the worker; default: the " +
			"coordinator's AO_PUBLIC_URL"}
	EventBytes = Setting[int64]{Env: "AO_EVENT_BYTES", Flag: "event-bytes", Default: "16MiB", Read: size(64<<10, 1<<40),
		Doc: "bytes of events that a run may write in a minute; more are left out, and the session says how many"}
	Hide = Setting[[]string]{Env: "AO_HIDE", Flag: "hide", Example: "/keys,/run/secrets", Read: wordList,
		Doc: "files and folders that no program of a run may read, a comma list; the worker does not start if " +
			"the system cannot enforce that (Landlock)"}
	HealthFile = Setting[string]{Env: "AO_HEALTH_FILE", Flag: "health-file", Example: "/tmp/ao-worker-health",
		Read: text,
		Doc: "file that a worker writes each second while coordinators answer its heartbeats; 'worker health' " +
			"checks its age, for a container's health check"}
	DrainGrace = Setting[time.Duration]{Env: "AO_DRAIN_GRACE", Flag: "drain-grace", Default: "30", Read: duration(0),
		Doc: "how long a worker lets its runs continue after it was asked to stop"}

	MetricsAddr = Setting[string]{Env: "AO_METRICS_ADDR", Flag: "metrics-addr", Example: "127.0.0.1:9464",
		Read: address,
		Doc:  "address of GET /metrics without a token, which shows names of agents and queues; default: none"}
	PprofAddr = Setting[string]{Env: "AO_PPROF_ADDR", Flag: "pprof-addr", Example: "127.0.0.1:6060", Read: Loopback,
		Doc: "address of Go's profiles (/debug/pprof/), on loopback only; default: none"}

	LogLevel = Setting[string]{Env: "AO_LOG_LEVEL", Flag: "log-level", Default: "info",
		Read: oneOf("debug", "info", "warn", "error"),
		Doc:  "log level: debug, info, warn or error"}
	LogFormat = Setting[string]{Env: "AO_LOG_FORMAT", Flag: "log-format", Default: "text", Example: "json",
		Read: oneOf("text", "json"),
		Doc:  "log format on stderr: text or json"}
)
