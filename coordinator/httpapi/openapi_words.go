package httpapi

import (
	"ao/coordinator/agents"
	"ao/coordinator/audit"
	"ao/shared/config"
	"ao/shared/run"
)

// obj is a JSON object of the document. Its keys are encoded in order, so every coordinator answers the same bytes.
type obj = map[string]any

// values are the possible values of members of named schemas.
var values = map[string][]string{
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
	"Actor.kind": {audit.Token, audit.Session, audit.Anonymous, audit.Unknown, audit.Publisher, audit.Runner,
		audit.Coordinator},
	"Me.kind": {"none", "token", "cookie", "session"},
}

// descriptions describe members: of a named schema ("Run.attempt"), or of any.
var descriptions = map[string]string{
	"run_id":                   "starts with run_",
	"session_id":               "starts with ses_",
	"runner_id":                "starts with rnr_",
	"parameters":               "as sent; the agent's parameters_schema describes them",
	"demands":                  "what a runner must be or have to match",
	"parent_session_id":        "the session whose child this is",
	"expect":                   "how many runs match, as you saw them; another number is 409 expect_mismatch",
	"Done.count":               "how many runs were stopped, made or redelivered",
	"Done.runs":                "their ids; of a retry, the ids of the new runs",
	"Done.refused":             "runs that were refused, each with its error",
	"retry_of":                 "the run that it retries; absent: none",
	"depth":                    "how many sessions are above its own; absent: none",
	"TreeSession.deleted":      "it was deleted or is no longer kept; the sessions below it are listed",
	"TreeSession.depth":        "how many levels it is below the session of the tree, which has 0",
	"TreeSession.runs_omitted": "how many older runs are left out",
	"TreeRun.earlier_attempts": "claimed attempts before the current one, the latest 20",
	"TreeRun.reports":          "a callback turn: the runs that it reports to its session",
	"partial": "the search reached its time limit before the page was full; next_cursor " +
		"continues it",
	"truncated": "with max_bytes: it was cut",
	"bytes":     "its full size, if it was cut",
	"head": "the beginning of the first member that is null because it is too large even " +
		"without its texts",
	"Run.children":                "lists with roots=true: how many runs its session's children have; absent: none",
	"Run.stopped_with":            "the session whose tree was stopped, and this run with it",
	"parent_gone":                 "the parent session no longer exists",
	"Me.name":                     "the token's name, or the session's id",
	"Me.login":                    "this coordinator requires tokens",
	"Me.expires_at":               "when the token expires; null: never",
	"Me.may":                      "the routes that the caller may use, as GET / lists them",
	"next_cursor":                 "cursor of the next page; absent: this is the last",
	"timeout_seconds":             "time limit of an attempt, in seconds",
	"max_attempts":                "maximum number of attempts",
	"callback_url":                "an HTTP receiver of the end",
	"output_schema":               "draft-07 schema that the answer must match",
	"output_schema_name":          "the same, by its name in /schemas",
	"tags":                        "a runner must have all of them",
	"model":                       "the model to use; absent: the profile's",
	"max_turns":                   "maximum number of requests to the model in a run",
	"models":                      "patterns of the models that agents may name; absent: any",
	"prompt":                      "for agents that take a prompt; others take parameters",
	"execution_mode":              "an alias of mode",
	"wait_seconds":                "mode sync: how long to wait before the answer is 202",
	"additional_demands":          "added to the agent's own demands",
	"Run.parameters_omitted":      "parameters are null because they are large; GET /runs/{id} has them",
	"Run.waiting_for":             "a pending run: what it waits for",
	"Run.next_attempt_at":         "a pending run whose attempt failed: when the next one may be queued",
	"Run.attempt":                 "number of the attempt, from 1; 0: none was claimed",
	"Run.error":                   "why it failed or was stopped; null: it did not",
	"Run.callback":                "mode async_callback: whether the callback was delivered to the parent session",
	"Run.http_callback":           "whether the callback was delivered to the callback_url",
	"Run.completed_at":            "when it ended",
	"RunWithResult.result":        "null: there is none",
	"Result.result_text":          "the agent's answer; null if it is in result_data",
	"Result.result_data":          "JSON: a program's output, or an answer that matches its schema",
	"Result.exit_code":            "procedural runs",
	"Late.limit":                  "the limit that was reached",
	"Late.timeout_by":             "who set it: request or default",
	"Validation.output":           "what the answer must match, and where that was set; null: anything",
	"Validation.runner_available": "a matching runner is online now",
	"Callback.status":             "waiting, owed (pending), delivered, undeliverable, suppressed or dead",
	"open_below":                  "runs below it that have not ended; absent: none",
	"OpenBelow.run_ids":           "the oldest, at most 100",
	"OpenBelow.stopping":          "true: they are stopped with it; false: they continue, and tree stops them",
	"tree":                        "true: also all runs below it, until a runner claims a later run of the session",
	"Callback.callback_run_id":    "the parent's turn that reports it",
	"Runner.running":              "its runs in progress",
	"Agent.path":                  "of the file that defines it; hidden from sessions",
	"Agent.reason":                "why it is not editable",
	"Agent.drafts":                "the sides that have a draft; shown to admins",
	"Agent.command":               "procedural: the program on its runner",
	"Agent.parameters_schema":     "draft-07; absent: a prompt (autonomous), any object (procedural)",
	"Agent.mcp_servers":           "passed to the executor",
	"Ledger.ok":                   "false: a guarantee was broken; wrong says which",
}
