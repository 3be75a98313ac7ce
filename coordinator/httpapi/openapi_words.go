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
	"Runner.status":                 {"online", "unable", "unresponsive", "stale", "draining"},
	"Setting.source":                {config.FromFlag, config.FromEnvironment, config.FromDefault},
	"Actor.kind": {audit.Token, audit.Session, audit.Anonymous, audit.Unknown, audit.Publisher, audit.Runner,
		audit.Coordinator},
	"Me.kind": {"none", "token", "cookie", "session"},
}

// descriptions describe members: of a named schema ("Run.attempt"), or of any.
var descriptions = map[string]string{
	"run_id":            "starts with run_",
	"session_id":        "starts with ses_",
	"runner_id":         "starts with rnr_",
	"parameters":        "as sent; the agent's parameters_schema describes them",
	"demands":           "what a runner must be or have to match",
	"parent_session_id": "the session whose child this is",
	"expect": "how many runs match, as you saw them; another number is 409 expect_mismatch, and " +
		"nothing is done",
	"Done.count":               "how many runs were stopped, made or redelivered",
	"Done.runs":                "their ids; of a retry, the ids of the new runs",
	"Done.refused":             "runs that were refused, each with its error",
	"retry_of":                 "the run that it retries; absent: none",
	"agent_hash":               "identifies the agent's definition; absent: unknown",
	"Definition.agent_changed": "the agent has another definition now, or is deleted; null: NATS does not tell",
	"Definition.definition":    "the agent as the run was accepted with; secrets are masked below scope admin",
	"Definition.output":        "what the answer must match, and where that was set; null: anything",
	"agent_changed":            "a retry: the agent's definition differs from that of the run that it repeats",
	"depth":                    "how many sessions are above its own; absent: none",
	"TreeSession.deleted":      "it was deleted or is no longer kept; the sessions below it are listed",
	"TreeSession.depth":        "how many levels it is below the session of the tree, which has 0",
	"TreeSession.runs_omitted": "how many older runs are left out",
	"TreeRun.earlier_attempts": "claimed attempts before the current one, the latest 20, as far as their records " +
		"are kept",
	"TreeRun.reports": "a callback turn: the runs that it reports to its session",
	"partial": "the search reached its time limit before the page was full; next_cursor " +
		"continues it",
	"truncated": "with max_bytes: it was cut",
	"bytes":     "its full size, if it was cut",
	"head": "the beginning of the first member that is null because it is too large even " +
		"without its texts",
	"Run.children":       "lists with roots=true: how many runs its session's children have; absent: none",
	"Run.stopped_with":   "the session whose tree was stopped, and this run with it",
	"parent_gone":        "the parent session no longer exists",
	"Me.name":            "the token's name, or the session's id",
	"Me.login":           "this coordinator requires tokens",
	"Me.expires_at":      "when the token expires; null: never",
	"Me.may":             "the routes that the caller may use, as GET / lists them",
	"next_cursor":        "cursor of the next page; absent: this is the last",
	"timeout_seconds":    "time limit of an attempt, in seconds",
	"max_attempts":       "1 to 100; default the agent's, else 1",
	"callback_url":       "an HTTP receiver of the end",
	"output_schema":      "draft-07 schema that the answer must match",
	"output_schema_name": "the same, by its name in /schemas",
	"tags":               "a runner must have all of them",
	"models":             "patterns of the models that agents may name; absent: any",
	"prompt":             "for agents that take a prompt; others take parameters",
	"execution_mode":     "an alias of mode",
	"wait_seconds":       "mode sync: how long to wait before the answer is 202; default 600",
	"additional_demands": "hostname, project_dir, executor_profile, executor_type, tags: added to the agent's " +
		"own demands",
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
	"Result.note":                 "what a reader must know: the answer is invented; absent: nothing",
	"RejectedMessage.subject":     "where it was published",
	"RejectedMessage.body":        "its beginning; null: it is no publisher's, and may hold a run's key",
	"RejectedMessage.bytes":       "its full size",
	"RejectedMessage.truncated":   "body has not all of it",
	"Late.limit":                  "the limit that was reached",
	"Late.timeout_by":             "who set it: request or default",
	"Validation.output":           "what the answer must match, and where that was set; null: anything",
	"Validation.runner_available": "a matching runner takes runs now",
	"Callback.status": "waiting: the run has not ended; owed: pending, the parent is busy; delivered: a turn was " +
		"accepted; undeliverable: see reason; suppressed: stopped with a tree; of a callback_url: owed, " +
		"delivered or dead",
	"open_below":               "runs below it that have not ended; absent: none",
	"OpenBelow.run_ids":        "the oldest, at most 100",
	"OpenBelow.stopping":       "true: they are stopped with it; false: they continue, and tree stops them",
	"tree":                     "true: also all runs below it, until a runner claims a later run of the session",
	"Callback.callback_run_id": "the parent's turn that reports it",
	"Runner.running":           "its runs in progress",
	"Runner.why":               "why it takes no runs",
	"Unable.next_look_at":      "when it is tried again; absent: as soon as its file is there",
	"Agent.path":               "of the file that defines it; hidden from sessions",
	"Agent.reason":             "why it is not editable",
	"Agent.unused_file":        "its copy was edited, so changes of it have no effect; hidden from sessions",
	"UnusedFile.changed":       "since it was copied",
	"Agent.drafts":             "the sides that have a draft; shown to admins",
	"Agent.command":            "procedural: the program, relative to the agent's file or on PATH",
	"Agent.parameters_schema":  "draft-07; absent: a prompt (autonomous), any object (procedural)",
	"Agent.mcp_servers": "passed to the executor. Below scope admin, and over NATS, secrets are masked: values " +
		"below env, headers and names such as credentials; in URLs the user part, the query's values and the " +
		"fragment, and user:password after -u and before an @; in arguments what follows, or is assigned to, a " +
		"flag or name such as --token, --header, Authorization:, API_KEY, password",
	"Ledger.ok": "false: a guarantee was broken; wrong says which",
	"Runner.status": "online: takes runs; unable: cannot work; unresponsive: not heard of for RUN_LEASE, its " +
		"runs are failed; stale: not heard of for RUNNER_STALE_THRESHOLD; draining: takes no more runs, finishes " +
		"and leaves",
	"Runner.unable": "why it cannot work, and when it is tried again",
	"Callback.reason": "undeliverable: parent_gone, procedural_agent_no_resume or session_never_began; " +
		"suppressed: tree_stopped",
	"OutputOptions.max_retries": "0 to 10: how often the session is asked again; default 1 with the agent's " +
		"schema, SCHEMA_ENFORCEMENT_MAX_RETRIES (2) with a caller's; programs are not asked again",
	"OutputOptions.strict_json_only": "true: the whole answer must be JSON, as with extract_json false or " +
		"validation_mode strict; default false",
	"OutputOptions.extract_json": "true: look for JSON in an answer with other text; default " +
		"SCHEMA_ENFORCEMENT_EXTRACT_JSON (true); beside validation_mode strict it is refused",
	"OutputOptions.validation_mode": "strict: the whole answer must be JSON; default lenient",
	"Obstacle.reason": "coordinator_not_ready; runner, stopping: a runner has it; result_check: a coordinator " +
		"checks the result; session_turn: another run of its session comes first; retry_pause: its attempt " +
		"failed, and the next follows; session_host_gone, no_matching_runner; too_many_queues: its caller's " +
		"share of AO_MAX_QUEUES is used up; queueing: a coordinator is about to queue it; no_free_slot: the " +
		"slots of all that match are in use; being_taken: they are not",
	"Obstacle.until":      "when its time limit ends, the next attempt is queued, or it fails",
	"Obstacle.run_id":     "session_turn: the run that comes first",
	"Obstacle.runs_ahead": "how many come first, in the session or in the queue",
	"Obstacle.wants":      "what a runner must be or have to match",
	"Obstacle.runners":    "the closest 50; hidden from sessions",
	"Obstacle.slots":      "those of the runners that match",
	"Obstacle.last_heard": "when its runner sent the last heartbeat for it",
	"Obstacle.lease_ends": "when the attempt fails without a heartbeat",
	"Candidate.mismatches": "executor_type, executor_profile, hostname, project_dir, tags, " +
		"require_matching_tags, agent or status; empty: it may take the run",
	"Candidate.holds": "what has its slots, the oldest first",
	"Step.what": "accepted, queued, moved (to another queue), claimed, started, bound, rejected (an answer that " +
		"does not match the output schema), offered, checked, stopping; attempt_failed, attempt_lost, returned " +
		"(another attempt follows); completed, failed, stopped, lost (with its runner); callback, webhook, " +
		"left_out",
	"Step.at":                "the record's time; of started the worker's",
	"Step.sequence":          "of the record in RUNS",
	"Explanation.waits_for":  "null: it has ended",
	"Explanation.rejected":   "answers that do not match the output schema, in order, at most 50",
	"Explanation.incomplete": "why the story lacks something",
	"RejectedAnswer.attempt": "of the run",
	"RejectedAnswer.answer":  "number of the answer in its attempt, from 1; of: how many it may give",
	"RejectedAnswer.output":  "the answer; over 16 KiB it is cut, and the session's event has all of it",
	"Status.since":           "this coordinator's start, when totals began",
	"Status.not_queued": "runs that wait for their turn in a session, for the pause before an attempt, or for a " +
		"runner that matches",
	"Status.slots":       "of runners that take runs",
	"Queue.served":       "a runner that takes runs serves it",
	"Queue.oldest_since": "after a start from a checkpoint: when that run was accepted",
	"Ledger.sequence": "the last record of the stream at the time of the request; everything is about that " +
		"state",
	"Ledger.truncated_before": "the first record that is kept; what was removed does not count as missing",
	"Ledger.foreign_records": "their key is none of the 100 that their run's attempts may have; a worker's " +
		"credential is enough to write them. One with a right key in a wrong place is a violation",
	"Ledger.foreign_sequences": "the first 100 of these",
	"Ledger.unknown_records":   "of kinds that this version does not know",
	"Ledger.damages": "losses of records: ends (the stream's last sequence), reached (what it had been), " +
		"missing, found_at, resolved_at (when the affected runs were known), accepted_at; failed and lost count " +
		"the runs, of which runs has the first 100",
	"Ledger.wrong": "the first 100 violations; sequence is the record that shows it. Kinds: sum, begun_twice, " +
		"two_last_words, begun_after_end, attempt_out_of_turn, completed_unoffered, offer_overdue, " +
		"ended_unclaimed, claimed_to_end, wrong_key, wrong_runner, two_at_once, out_of_order, unknown_run, " +
		"callback_twice, callback_overdue, callback_wrong, webhook_wrong, record_mismatch, unreadable_record, " +
		"unknown_version, history_damaged",
	"Agent.name":        "1 to 60 letters, digits, _ and -",
	"Agent.description": "for people; may be empty",
	"Agent.type": "autonomous: executed by the program of an autonomous profile; procedural: has a " +
		"command",
	"Agent.status":               "inactive: its runs are refused",
	"Agent.timeout_seconds":      "time limit of an attempt, 1 to 2592000; 0 is refused",
	"Agent.max_attempts":         "1 to 100; 0 is refused",
	"Agent.max_turns":            "autonomous: requests to the model in a run, 1 to 10000, at most the profile's",
	"Agent.model":                "autonomous, if the profile allows it; absent: the profile's",
	"Agent.system_prompt":        "passed to the executor; hidden from sessions",
	"Agent.runners":              "of a runner's agent: how many online runners have it",
	"Agent.editable":             "PATCH and DELETE may change it",
	"Agent.origin":               "of the API, of a file, or of a runner",
	"OutputSchema.used_by":       "agents that name it or refer to it",
	"OutputSchema.referred_by":   "schemas that refer to it",
	"OutputSchema.error":         "why the file cannot be used",
	"AnswerVerdict.chosen":       "index of the candidate that counts; null: none",
	"AnswerVerdict.candidates":   "in order of preference: the first 50, and the chosen one",
	"AnswerVerdict.found":        "candidates in all",
	"AnswerCandidate.source":     "whole_text, fenced_block or embedded",
	"AnswerCandidate.text":       "over 64 KiB it is cut; errors are placed in it",
	"AgentPreview.prompt":        "the prompt of the model; null: none",
	"AgentPreview.system_prompt": "ends with the request for output in the agent's schema; null: none",
	"AgentPreview.runners": "at most 50, the closest first; a model that the profile does not allow is a " +
		"mismatch, too",
	"HealthReport.checks":       "each with check, verdict (ok, warn, fail, skip), what and advice",
	"Setting.value":             "of a secret only set or unset",
	"AuditGap.count":            "how many entries are missing between after and before",
	"RejectedAnswer.truncated":  "output is its beginning",
	"AnswerCandidate.truncated": "text is its beginning",
	"Request.type":              "start_session (default) or resume_session",
	"Request.mode":              "async_poll (default), sync or async_callback",
	"Request.session_id": "of a resume; of a start: an id of your choice, ses_ and 1 to 64 letters, digits, _ " +
		"and -",
	"Request.timeout_seconds":   "time limit of an attempt; default the agent's, else an hour; at most the profile's",
	"Request.parent_session_id": "of a start: the session whose child this is",
	"Request.callback_url":      "gets a webhook when the run ends",
}
