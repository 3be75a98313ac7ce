package httpapi

import (
	"ao/coordinator/agents"
	"ao/coordinator/audit"
	"ao/shared/config"
	"ao/shared/run"
)

// obj is a JSON object of the document. Its keys come out sorted, so that two coordinators say the same bytes.
type obj = map[string]any

// words are the values that a member of a named schema may have.
var words = map[string][]string{
	"Run.type":                      {run.Start, run.Resume},
	"Run.mode":                      {run.AsyncPoll, run.Sync, run.AsyncCallback},
	"RunWithResult.type":            {run.Start, run.Resume},
	"RunWithResult.mode":            {run.AsyncPoll, run.Sync, run.AsyncCallback},
	"Session.agent_type":            {run.Autonomous, run.Procedural},
	"Agent.type":                    {run.Autonomous, run.Procedural},
	"Agent.origin":                  {agents.FromAPI, agents.FromFile, agents.FromRunner},
	"Agent.status":                  {"active", "inactive"},
	"Result.result_type":            {run.Autonomous, run.Procedural},
	"OutputOptions.validation_mode": {"lenient", "strict"},
	"Output.schema_source":          {"request", "registry", "blueprint"},
	"Runner.status":                 {"online", "stale", "draining"},
	"Setting.source":                {config.FromFlag, config.FromEnvironment, config.FromDefault},
	"Actor.kind": {audit.Token, audit.Session, audit.Anonymous, audit.Unknown, audit.Publisher,
		audit.Runner, audit.Coordinator},
	"Me.kind": {"none", "token", "cookie", "session"},
}

// sayings tell people what a member is: of a named schema ("Run.attempt"), or wherever it stands.
var sayings = map[string]string{
	"run_id":                   "begins with run_",
	"session_id":               "begins with ses_",
	"runner_id":                "begins with rnr_",
	"parameters":               "what the agent's parameters_schema describes, as sent",
	"demands":                  "what a runner must be or have to take the run",
	"parent_session_id":        "the session whose child this is",
	"expect":                   "how many match, as you have seen; another number is 409 expect_mismatch",
	"Done.count":               "how many were stopped, made or tried again",
	"Done.runs":                "their ids; of a retry those of the new runs",
	"Done.refused":             "runs of which nothing came, and why",
	"retry_of":                 "the run that it repeats; not there: none",
	"depth":                    "how many sessions are above its own; not there: none",
	"TreeSession.deleted":      "it was deleted, or is no longer kept; what is below it is shown",
	"TreeSession.depth":        "how many sessions are between it and the one whose tree it is, which has 0",
	"TreeSession.runs_omitted": "how many older runs are left out",
	"TreeRun.earlier_attempts": "attempts that runners began and others followed, the latest 20",
	"TreeRun.reports":          "a callback turn: the runs that it tells its session of",
	"partial":                  "the search took its time before the page was full; next_cursor goes on",
	"truncated":                "with max_bytes: it was cut",
	"bytes":                    "how many bytes it has where it was cut",
	"head": "the beginning, as text, of the first member that is null since it is too large " +
		"even without its texts",
	"Run.children": "lists with roots=true: how many runs the sessions right below its own " +
		"have; not there: none",
	"Run.stopped_with":            "the session whose tree was stopped, this run with it",
	"parent_gone":                 "the parent session does not exist any more",
	"Me.name":                     "of the token, or the session's id",
	"Me.login":                    "tokens are asked for here",
	"Me.expires_at":               "when the token ends; null: never",
	"Me.may":                      "the routes that the caller may use, as GET / lists them",
	"next_cursor":                 "cursor of the next page; none: this was the last",
	"timeout_seconds":             "limit of an execution, in seconds",
	"max_attempts":                "how often it may be begun",
	"callback_url":                "an HTTP receiver that is told of the end",
	"output_schema":               "draft-07 schema that the answer must match",
	"output_schema_name":          "the same, by its name in /schemas",
	"tags":                        "a runner must have all of them",
	"model":                       "which model answers; none: the profile's",
	"max_turns":                   "how often the model may be asked in one run",
	"models":                      "patterns of the models that agents may name; not there: any",
	"prompt":                      "for agents that take a prompt; parameters otherwise",
	"execution_mode":              "an alias of mode",
	"wait_seconds":                "mode sync: how long the answer may take before it is 202",
	"additional_demands":          "added to the agent's own demands",
	"Run.parameters_omitted":      "parameters are null because they are large; GET /runs/{id} has them",
	"Run.waiting_for":             "a pending run: why it waits",
	"Run.next_attempt_at":         "a pending run whose attempt failed: when the next one may be queued",
	"Run.attempt":                 "number of the attempt, from 1; 0: none was begun",
	"Run.error":                   "why it failed or was stopped; null: it did not",
	"Run.callback":                "mode async_callback: whether the parent session was told",
	"Run.http_callback":           "whether the callback_url was told",
	"Run.completed_at":            "when it ended",
	"RunWithResult.result":        "null: it left none",
	"Result.result_text":          "what the agent said; null where result_data has it",
	"Result.result_data":          "JSON: what a program printed, or an answer that its schema holds to",
	"Result.exit_code":            "procedural runs",
	"Late.limit":                  "which limit it was",
	"Late.timeout_by":             "who set it: request or default",
	"Validation.output":           "what the answer must be, and where that is from; null: anything",
	"Validation.runner_available": "a runner that matches is online now",
	"Callback.status":             "waiting, owed, delivered, undeliverable, suppressed or dead",
	"open_below":                  "runs below it that have not ended; not there: none",
	"OpenBelow.run_ids":           "the oldest, 100 at most",
	"OpenBelow.stopping":          "true: they are stopped with it; false: they go on, and tree stops them",
	"tree": "true: and all that is below it, now and until a runner begins a later " +
		"run of the session",
	"Callback.callback_run_id": "the parent's turn that tells it",
	"Runner.running":           "runs that it has under way",
	"Agent.path":               "of the file that defines it; not shown to sessions",
	"Agent.reason":             "why it is not editable",
	"Agent.drafts":             "the sides that have a draft; shown to admins",
	"Agent.command":            "procedural: the program, on its runner",
	"Agent.parameters_schema":  "draft-07; none: a prompt (autonomous), any object (procedural)",
	"Agent.mcp_servers":        "handed to the executor",
	"Ledger.ok":                "false: a promise was broken; wrong says which",
}
