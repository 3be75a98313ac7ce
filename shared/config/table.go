package config

import (
	"math"
	"net/netip"
	"time"
)

// Embed as AO_NATS_URL: NATS runs inside the process.
const Embed = "embed"

// The settings that more than one program has, and those whose names are fixed.
var (
	NATSURL = Setting[string]{Env: "AO_NATS_URL", Flag: "nats-url", Default: "nats://127.0.0.1:4222", Read: natsURL,
		Doc: `where NATS is; "embed": inside this process (allinone, coordinator)`}
	NATSListen = Setting[string]{Env: "AO_NATS_LISTEN", Flag: "nats-listen", Default: "127.0.0.1:4222", Read: AddressOr("none"),
		Doc: `where an embedded NATS listens; "none": in-process only`}
	NATSUsers = Setting[string]{Env: "AO_NATS_USERS", Flag: "nats-users", Example: "/etc/ao/nats/users.conf", Read: Text,
		Doc: "who may log in at an embedded NATS, and do what: the file nats/users.conf that 'ao init' makes; needed to listen beyond loopback"}
	NATSCreds = Setting[string]{Env: "AO_NATS_CREDS", Flag: "nats-creds", Example: "/etc/ao/worker/nats.nk", Read: Text,
		Doc: "what to log in with at NATS: a file with an nkey's seed, as 'ao init' makes them, or a .creds file"}
	NATSCA = Setting[string]{Env: "AO_NATS_CA", Flag: "nats-ca", Example: "/etc/ao/worker/ca.crt", Read: Text,
		Doc: "authorities whose certificates are trusted at NATS, instead of the system's (PEM)"}
	NATSCert = Setting[string]{Env: "AO_NATS_CERT", Flag: "nats-cert", Example: "/etc/ao/worker/nats.crt", Read: Text,
		Doc: "certificate to show to a NATS that asks for one (PEM); with AO_NATS_KEY"}
	NATSKey = Setting[string]{Env: "AO_NATS_KEY", Flag: "nats-key", Example: "/etc/ao/worker/nats.key", Read: Text,
		Doc: "private key of AO_NATS_CERT (PEM)"}
	NATSSync = Setting[string]{Env: "AO_NATS_SYNC", Flag: "nats-sync", Default: "always", Example: "2m", Read: natsSync,
		Doc: `when an embedded NATS syncs to disk: "always" before it acknowledges, or how often`}
	NATSStaging = Setting[string]{Env: "AO_NATS_STAGING", Flag: "nats-staging", Default: "memory", Example: "disk", Read: OneOf("memory", "disk"),
		Doc: `where an embedded NATS puts batches of records aside before it commits them; nothing acknowledged lies only there`}
	NATSReplicas = Setting[int]{Env: "AO_NATS_REPLICAS", Flag: "nats-replicas", Default: "1", Example: "3", Read: Int(1, 5),
		Doc: "replicas of the streams, in a NATS cluster"}
	DataDir = Setting[string]{Env: "AO_DATA_DIR", Flag: "data-dir", Default: ".ao", Read: Text,
		Doc: "data of an embedded NATS, snapshots of the history, keys, conversation caches"}

	HTTPAddr = Setting[string]{Env: "AO_HTTP_ADDR", Flag: "http-addr", Default: "127.0.0.1:8765", Read: Address,
		Doc: "the coordinator's HTTP address"}
	InsecureListen = Setting[bool]{Env: "AO_INSECURE_LISTEN", Flag: "insecure-listen", Default: "no", Example: "yes", Read: Switch,
		Doc: "listen beyond loopback although anybody who gets there may do everything"}
	APITokens = Setting[string]{Env: "AO_API_TOKENS", Flag: "api-tokens", Example: "/etc/ao/tokens", Read: Text,
		Doc: "file of the API tokens' hashes ('ao tokens' makes it); without it whoever reaches the HTTP address may do everything"}
	PublicURL = Setting[string]{Env: "AO_PUBLIC_URL", Flag: "public-url", Example: "http://coordinator:8765", Read: HTTPURL,
		Doc: "where workers and other clients reach the HTTP API; default the address that is listened on"}
	TLSCert = Setting[string]{Env: "AO_TLS_CERT", Flag: "tls-cert", Example: "/etc/ao/tls.crt", Read: Text,
		Doc: "certificate of the HTTP API (PEM, its chain after it): it is https then; read again when it changes; with AO_TLS_KEY"}
	TLSKey = Setting[string]{Env: "AO_TLS_KEY", Flag: "tls-key", Example: "/etc/ao/tls.key", Read: Text,
		Doc: "private key of the HTTP API's certificate (PEM)"}
	CA = Setting[string]{Env: "AO_CA", Flag: "ca", Example: "/etc/ao/ca.crt", Read: Text,
		Doc: "authorities whose certificates are trusted beside the system's, where the HTTP API is reached over https (PEM)"}
	PrivateNetwork = Setting[bool]{Env: "AO_PRIVATE_NETWORK", Flag: "private-network", Default: "no", Example: "yes", Read: Switch,
		Doc: "beyond loopback there is only a network of this system's own, such as a container engine's on one machine: 'ao doctor' misses no TLS in it"}
	AuditLog = Setting[string]{Env: "AO_AUDIT_LOG", Flag: "audit-log", Example: "/var/log/ao/audit.jsonl", Read: Text,
		Doc: `file of who changed what, a JSON line each, opened again at SIGHUP; "log": into the program's log; default none`}
	AuditStream = Setting[bool]{Env: "AO_AUDIT_STREAM", Flag: "audit-stream", Default: "yes", Example: "no", Read: not(Switch),
		Doc: "keep who changed what in NATS, for 30 days and 64 MiB at most: GET /audit and 'ao audit' tell it"}
	AgentsDirs = Setting[[]string]{Env: "AGENT_ORCHESTRATOR_AGENTS_DIR", Flag: "agents-dir", Example: "agents:more/agents", Read: Folders,
		Doc: "folders of coordinator-owned agents, separated by ':'"}
	AgentsWritable = Setting[bool]{Env: "AO_AGENTS_WRITABLE", Flag: "agents-writable", Default: "no", Example: "yes", Read: Switch,
		Doc: "the API may change and delete the files of coordinator-owned agents"}
	AgentsSeed = Setting[string]{Env: "AO_AGENTS_SEED", Flag: "agents-seed", Example: "/etc/ao/agents/autonomous", Read: Text,
		Doc: "folder of agents that are copied into the first folder of AGENT_ORCHESTRATOR_AGENTS_DIR, or into agents of AO_DATA_DIR, and kept as new as it is where nobody changed the copy"}
	MaxPending = Setting[int]{Env: "AO_MAX_PENDING", Flag: "max-pending", Default: "100000", Read: Int(1, math.MaxInt32),
		Doc: "waiting runs at most; beyond it new ones get 429"}
	BodyMemory = Setting[int64]{Env: "AO_BODY_MEMORY", Flag: "body-memory", Example: "512MiB", Read: Bytes(1<<20, 1<<40),
		Doc: "memory for bodies of requests that are under way, and as much for large answers; beyond it 503; default an eighth of GOMEMLIMIT, else 256MiB"}
	MaxDepth = Setting[int]{Env: "AO_MAX_DEPTH", Flag: "max-depth", Default: "8", Read: negativeZero(Int(0, 250)),
		Doc: "how many sessions may be above a run's own: children of children of …; deeper ones get 400 too_deep; 0: no run has children"}
	MaxQueues = Setting[int]{Env: "AO_MAX_QUEUES", Flag: "max-queues", Default: "256", Read: Int(1, 1000),
		Doc: "queues of special demands at most, and as many of runners' own agents; a caller, or a profile, may have as many as are free"}
	MaxRunners = Setting[int]{Env: "AO_MAX_RUNNERS", Flag: "max-runners", Default: "4096", Read: Int(1, 100_000),
		Doc: "registered runners at most; a profile may have as many as places are free"}
	MaxPayload = Setting[int64]{Env: "AO_MAX_PAYLOAD", Flag: "max-payload", Default: "16MiB", Read: Bytes(1<<10, 1<<30),
		Doc: "largest parameters or result of a run"}
	MaxConnections = Setting[int]{Env: "AO_MAX_CONNECTIONS", Flag: "max-connections", Example: "2000", Read: Int(16, 1_000_000),
		Doc: "connections to the HTTP API at once; beyond it idle ones are closed first; default half of the files that may be open, at most 10000"}
	SchemaRetries = Setting[int]{Env: "SCHEMA_ENFORCEMENT_MAX_RETRIES", Flag: "schema-enforcement-max-retries", Default: "2", Read: negativeZero(Int(0, 10)),
		Doc: "how often a session is asked again whose answer does not match a caller's output schema"}
	SchemaWhole = Setting[bool]{Env: "SCHEMA_ENFORCEMENT_EXTRACT_JSON", Flag: "schema-enforcement-extract-json", Default: "true", Example: "false", Read: not(Switch),
		Doc: "JSON is looked for in answers that hold other text too; false: only an answer that is JSON as a whole counts"}
	CallbackHosts = Setting[[]string]{Env: "AO_CALLBACK_HOSTS", Flag: "callback-hosts", Example: "hooks.example.com,*.example.org", Read: Words,
		Doc: `who may be told by callback_url, a comma list; "*": any public host; empty: nobody`}
	CallbackNetworks = Setting[[]netip.Prefix]{Env: "AO_CALLBACK_NETWORKS", Flag: "callback-networks", Example: "10.1.0.0/16", Read: Networks,
		Doc: "private networks in which receivers of callbacks may be, a comma list"}
	CallbackSecret = Setting[string]{Env: "AO_CALLBACK_SECRET", Flag: "callback-secret", Example: "whsec_ and 24 to 64 bytes as base64", Read: Text, Secret: true,
		Doc: "signs callbacks as Standard Webhooks describes; several, separated by spaces, while they are exchanged"}
	RunLease = Setting[time.Duration]{Env: "RUN_LEASE", Flag: "run-lease", Default: "15", Example: "15, or RUN_LEASE=1m30s", Read: Duration(time.Second),
		Doc: "a begun run that its worker does not name for so long is lost"}
	RunNoMatchTimeout = Setting[time.Duration]{Env: "RUN_NO_MATCH_TIMEOUT", Flag: "run-no-match-timeout", Default: "300", Read: Duration(time.Second),
		Doc: "how long a run waits for a runner that matches"}
	RunRetention = Setting[time.Duration]{Env: "RUN_RETENTION", Flag: "run-retention", Default: "168h", Read: Duration(time.Minute),
		Doc: "how long history and idempotency keys are kept; RUN_KEEP may come first for runs"}
	RunKeep = Setting[int]{Env: "RUN_KEEP", Flag: "run-keep", Default: "1000000", Read: Int(1, math.MaxInt32),
		Doc: "ended runs kept at most; it wins over RUN_RETENTION"}
	RunnerHeartbeat = Setting[time.Duration]{Env: "RUNNER_HEARTBEAT_INTERVAL", Flag: "runner-heartbeat-interval", Default: "60", Read: Duration(time.Second),
		Doc: "how often a runner is to be heard of at least"}
	RunnerStale = Setting[time.Duration]{Env: "RUNNER_STALE_THRESHOLD", Flag: "runner-stale-threshold", Default: "120", Read: Duration(time.Second),
		Doc: "silence after which a runner is stale"}
	RunnerRemove = Setting[time.Duration]{Env: "RUNNER_REMOVE_THRESHOLD", Flag: "runner-remove-threshold", Default: "600", Read: Duration(time.Second),
		Doc: "silence after which a runner is removed"}

	ProfilesDir = Setting[string]{Env: "AO_PROFILES_DIR", Flag: "profiles-dir", Example: "worker/profiles", Read: Folder,
		Doc: "where executor profiles lie (<name>.json)"}
	Profiles = Setting[[]string]{Env: "AO_PROFILES", Flag: "profiles", Short: "x", Example: "procedural", Read: Words,
		Doc: "which profiles a worker runs, a comma list"}
	ProjectDir = Setting[string]{Env: "AO_PROJECT_DIR", Flag: "project-dir", Default: ".", Read: Folder,
		Doc: "where a worker's runs work unless they say otherwise; part of the runner's identity"}
	Hostname = Setting[string]{Env: "AO_HOSTNAME", Flag: "hostname", Example: "crawler-1", Read: Text,
		Doc: "the runner's hostname, default this machine's; part of the runner's identity"}
	Tags = Setting[[]string]{Env: "AO_TAGS", Flag: "tags", Example: "gpu,linux", Read: Words,
		Doc: "tags of a worker's runners, a comma list"}
	RequireMatchingTags = Setting[bool]{Env: "AO_REQUIRE_MATCHING_TAGS", Flag: "require-matching-tags", Default: "no", Example: "yes", Read: Switch,
		Doc: "take only runs that demand one of the tags"}
	APIURL = Setting[string]{Env: "AO_API_URL", Flag: "api-url", Example: "http://coordinator:8765", Read: HTTPURL,
		Doc: "where a worker's executors reach the HTTP API and MCP server, through the worker; default what the coordinator says (AO_PUBLIC_URL)"}
	Hide = Setting[[]string]{Env: "AO_HIDE", Flag: "hide", Example: "/keys,/run/secrets", Read: Words,
		Doc: "files and folders that no program of a run may read, a comma list; the worker does not start where the system cannot keep that (Landlock)"}
	HealthFile = Setting[string]{Env: "AO_HEALTH_FILE", Flag: "health-file", Example: "/tmp/ao-worker-health", Read: Text,
		Doc: "a worker writes it each second while coordinators answer its heartbeats; 'worker health' looks at its age, as a container's health check"}
	DrainGrace = Setting[time.Duration]{Env: "AO_DRAIN_GRACE", Flag: "drain-grace", Default: "30", Read: Duration(0),
		Doc: "how long a worker that is told to end lets its runs go on"}

	MetricsAddr = Setting[string]{Env: "AO_METRICS_ADDR", Flag: "metrics-addr", Example: "127.0.0.1:9464", Read: Address,
		Doc: "where GET /metrics is answered without a token, names of agents and queues and all; default nowhere"}
	PprofAddr = Setting[string]{Env: "AO_PPROF_ADDR", Flag: "pprof-addr", Example: "127.0.0.1:6060", Read: Loopback,
		Doc: "where Go's profiles are to be had (/debug/pprof/), on loopback only; default nowhere"}

	LogLevel = Setting[string]{Env: "AO_LOG_LEVEL", Flag: "log-level", Default: "info", Read: OneOf("debug", "info", "warn", "error"),
		Doc: "debug, info, warn or error"}
	LogFormat = Setting[string]{Env: "AO_LOG_FORMAT", Flag: "log-format", Default: "text", Example: "json", Read: OneOf("text", "json"),
		Doc: "text or json, on stderr"}
)
