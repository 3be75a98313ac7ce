package fault

// Row describes error codes for people. The page reference/errors.md is made from the rows, and a house rule compares
// them with the code.
type Row struct {
	HTTP  string // the statuses with which requests are answered; empty: the code is the end of a run
	Codes []string
	Means string // when it occurs, the fields that it has, and what to do
}

// Answers are the codes of answers to requests.
var Answers = []Row{
	{"400", []string{"invalid_request"}, "the request is invalid: `field` or the message names what to correct. " +
		"Also what cannot be read as HTTP"},
	{"400", []string{"parameter_validation_failed"}, "the parameters do not match the agent's schema: " +
		"`validation_errors`, and the schema"},
	{"400", []string{"InvalidSchema"}, "the sent schema is not valid: `field`, `details`"},
	{"400", []string{"model_not_allowed"}, "no matching online runner allows the agent's `model`; `models` has what " +
		"they allow"},
	{"400", []string{"procedural_agent_no_resume"}, "the resumed session is a procedural agent's: start a new one"},
	{"400", []string{"too_deep"}, "the session would have more ancestors than `AO_MAX_DEPTH`: `depth`, `max_depth`"},
	{"401", []string{"unauthorized"}, "the token is missing, unknown, revoked or expired"},
	{"403", []string{"forbidden"}, "a foreign `Host`; a token without the `scope`; something that is not the " +
		"session's"},
	{"403", []string{"foreign_origin"}, "the request comes from a page of another site: a foreign `Origin`, or " +
		"`Sec-Fetch-Site: cross-site` or `same-site` (reads too)"},
	{"404", []string{"not_found"}, "there is no such path, run, session, agent or runner. For an agent, `near` has " +
		"up to three active ones with similar names, and scope admin gets the `folders` that the coordinator reads"},
	{"404", []string{"SchemaNotFound"}, "there is no output schema of that name"},
	{"404", []string{"parameters_expired"}, "the parameters of the run, and a large definition with them, were " +
		"removed to make room for others: send them again in a new run"},
	{"404", []string{"no_longer_kept"}, "a run or session older than what `RUN_KEEP` and `RUN_RETENTION` keep. An id " +
		"that was chosen, or made from an `Idempotency-Key`, does not tell its age: it is `not_found`"},
	{"405", []string{"method_not_allowed"}, "the path has other methods: `Allow`"},
	{"409", []string{"conflict"}, "the thing is in another state; the message says in which"},
	{"409", []string{"history_damaged"}, "the history has lost records, and the run of the request's " +
		"`Idempotency-Key` may be among them (`run_id`). An admin accepts the loss with `ao verify --accept-damage`. " +
		"A request without a key is accepted"},
	{"409", []string{"agent_inactive"}, "the agent's `status` is `inactive`"},
	{"409", []string{"session_never_began"}, "the resumed session's first run was not claimed yet, or never"},
	{"409", []string{"session_host_gone"}, "the resumed session is bound to a host that has had no runner for " +
		"`RUN_NO_MATCH_TIMEOUT`: `hostname`, `executor_profile`"},
	{"409", []string{"expect_mismatch"}, "not `expect` runs match, but `count`; nothing was done"},
	{"409", []string{"no_longer_kept"}, "the run `run_id` of this `Idempotency-Key` was removed for its age, and a " +
		"last record of it is still there: use a new key"},
	{"409", []string{"idempotency_key_reused"}, "the key was used with another body, for the run `run_id`"},
	{"409", []string{"position_unknown"}, "`Ao-Position`, or `after` of a session's events, is beyond the end of the " +
		"history, so it belongs to another one: read again without it"},
	{"409", []string{"run_not_ended", "no_result"}, "the run has no result yet; it ended without one (`run_error` " +
		"says why)"},
	{"409", []string{"agent_name_collision"}, "a runner of another profile, or this coordinator, has an agent of " +
		"that name. Or another runner of the profile has another definition, and the registration has no `updates`"},
	{"409", []string{"runner_already_online"}, "a live process is this runner already"},
	{"412", []string{"precondition_failed"}, "the thing is not the one that `If-Match` or `If-None-Match` names: see " +
		"`current`"},
	{"413", []string{"too_large"}, "parameters, agent and output schema exceed `AO_MAX_PAYLOAD` together, or a body " +
		"does: `field`, `limit`"},
	{"429", []string{"history_share"}, "the history is nearly full, and your runs, or those of this session tree " +
		"(`share`), take much of it, ended ones too; `Retry-After`"},
	{"429", []string{"payload_share"}, "the payloads of your runs, or of this session tree, hold your share of the " +
		"object store: `share`, `held`, `size`. What is sent inline (up to 256 KiB) is still accepted; `Retry-After`"},
	{"429", []string{"too_many_pending"}, "`AO_MAX_PENDING` runs wait, or your share of them is used up. Then " +
		"`share` names whose: `token` or `session tree`; `Retry-After`"},
	{"429", []string{"too_many_requests"}, "your share of the requests in progress is used up " +
		"(`AO_MAX_CONNECTIONS`); `Retry-After`"},
	{"429", []string{"too_many_registrations"}, "a runner registers too often, each time with something else; " +
		"`Retry-After`"},
	{"429, 503", []string{"too_many_queues"}, "your share of `AO_MAX_QUEUES` is used up; 503: all queues are; " +
		"`Retry-After`"},
	{"431", []string{"headers_too_large"}, "the first line and the headers are over 64 KiB"},
	{"500", []string{"internal"}, "the log has the cause under the answer's `X-Request-Id`"},
	{"501", []string{"not_implemented"}, "an unknown `Transfer-Encoding`"},
	{"503", []string{"payloads_full"}, "the object store is nine tenths full, and results need the rest. What is " +
		"sent inline (up to 256 KiB) is still accepted; `Retry-After`"},
	{"503", []string{"unavailable"}, "the coordinator starts or reads its history again; NATS does not answer; too " +
		"many live streams, connections, large bodies, exports or validations. For new runs: the history is nine " +
		"tenths full; `Retry-After`"},
	{"505", []string{"http_version_not_supported"}, "another version of HTTP than 1.1"},
}

// Ends are the codes of failed and stopped runs. Executors have further ones.
var Ends = []Row{
	{"", []string{"command_failed"}, "its command ended with another code than 0: `exit_code`, and `signal` " +
		"(`SIGKILL`) where one killed it, or the code is 137 (SIGKILL) or 143 (SIGTERM)"},
	{"", []string{"command_not_found", "command_not_runnable"}, "there is no such program, or agent, on the worker; " +
		"the system does not start it"},
	{"", []string{"executor_failed"}, "its executor ended with another code than 0, or reported a failure without a " +
		"reason"},
	{"", []string{"executor_not_found", "executor_not_runnable"}, "there is no such program on the worker; the " +
		"system does not start it"},
	{"", []string{"executor_result_unreadable"}, "its executor's last result line, or its answer to a turn, cannot " +
		"be read"},
	{"", []string{"executor_stopped"}, "its executor reported a stop that nobody requested"},
	{"", []string{"executor_crashed"}, "the worker failed; its log has more"},
	{"", []string{"timeout"}, "took longer than its limit (exit code 124): `timeout_seconds`, and `timeout_by`, " +
		"which is `request`, `agent`, `profile` or `default`; `stderr_tail`"},
	{"", []string{"stopped"}, "was stopped; `stopped_with`: with that session's tree; `stderr_tail`"},
	{"", []string{"no_matching_runner"}, "found no runner that matches in time: `timeout_seconds`, `timeout_by` " +
		"`coordinator`, `limit` `RUN_NO_MATCH_TIMEOUT`"},
	{"", []string{"runner_disconnected"}, "its runner sent no heartbeat for a lease, or ended"},
	{"", []string{"history_damaged"}, "had begun, and the history has lost its claim or its end: `evidence` says how " +
		"that is known; it is not attempted again. Or NATS cannot read the record that queued it"},
	{"", []string{"session_deleted"}, "was not claimed when its session was deleted"},
	{"", []string{"session_never_began"}, "is a turn accepted while the session's first run was queued; that run " +
		"ended without being claimed"},
	{"", []string{"model_not_allowed"}, "has an agent whose `model` the runner's profile does not allow"},
	{"", []string{"unknown_variable"}, "has an agent whose `mcp_servers` name a variable that the worker does not " +
		"know"},
	{"", []string{"invalid_request", "internal"}, "cannot be executed: the message says why; could not be prepared"},
	{"", []string{"input_unreadable", "payload_unavailable"}, "has an input that cannot be passed to its executor; " +
		"whose input is gone or damaged"},
	{"", []string{"conversation_lost"}, "continues a conversation that its worker stored, and that is gone or damaged"},
	{"", []string{"InvalidSchema"}, "has an output schema that its worker cannot read"},
	{"", []string{"OutputSchemaValidationError"}, "gave no answer that matches the output schema: `errors`, " +
		"`last_output`"},
	{"", []string{"result_too_large", "result_not_stored"}, "has a result over `AO_MAX_PAYLOAD`: `size`, `limit`; " +
		"one that could not be stored, such as where its token has its share of the object store"},
	{"", []string{"event_too_large"}, "gave no result, and an event was dropped as too large"},
	{"", []string{"result_unreadable"}, "has a result that is not JSON, or that a coordinator could not read for the " +
		"result check"},
	{"", []string{"result_unchecked"}, "has an output schema, and its worker completed it without a result check"},
	{"", []string{"record_version"}, "has a record of a version above what the attempt allows; it was not read"},
	{"", []string{"unreadable_end"}, "has an end record that cannot be read"},
}
