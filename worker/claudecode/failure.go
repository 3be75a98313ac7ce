package claudecode

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"ao/shared/fault"
	"ao/worker/process"
)

// Error codes of these turns.
const (
	codeNotFound       = "claude_not_found"
	codeNotRunnable    = "claude_not_runnable"
	codeNotLoggedIn    = "claude_not_logged_in"
	codeForbidden      = "claude_forbidden"
	codeNoCredit       = "claude_no_credit"
	codeRateLimited    = "claude_rate_limited"
	codeOverloaded     = "claude_overloaded"
	codeModelNotFound  = "claude_model_not_found"
	codeMaxTurns       = "claude_max_turns"
	codeSessionGone    = "claude_session_gone"
	codePermissionMode = "claude_permission_mode"
	codeFailed         = "claude_failed"
)

// failure collects what claude reported of its failure.
type failure struct {
	kind    string // claude's error type: authentication_failed, rate_limit, …; may be empty
	status  int    // HTTP status of the API; 0: unknown
	subtype string // of the result line; empty: none
	message string // error message or last text
	resets  time.Time
	wait    time.Duration // wait that the API asked for; 0: unknown
	reason  string        // why a turn that claude calls a success has no answer; may be empty
}

var (
	apiError   = regexp.MustCompile(`^API Error: (?:Repeated )?(\d{3})\b`)
	usageLimit = regexp.MustCompile(
		`(?i)^(?:you['’]ve hit your (?:[\w-]+ )*|(?:[\w-]+ ){0,2}(?:\d+-hour|usage|session|weekly|opus|sonnet) )limit`)
)

// readWords reads what a message says. Claude Code tells a subscription's limits in words only, and 2.1.197 also a
// status of the API, if it stops retrying early.
func (t *failure) readWords() {
	if m := apiError.FindStringSubmatch(t.message); m != nil {
		t.status, _ = strconv.Atoi(m[1])
	} else if usageLimit.MatchString(t.message) {
		t.kind = "rate_limit"
	}
}

func notFound(claude string, err error) *fault.Fault {
	return fault.Wrap(fault.Internal, codeNotFound,
		fmt.Sprintf("Claude Code is not installed on this host: no program %q. "+
			"Install it (npm install -g @anthropic-ai/claude-code), or set its path in the profile's config: "+
			"{\"claude\":\"/absolute/path\"}", claude), err)
}

func (t *failure) fromResult(end *resultLine) {
	t.subtype, t.status = end.Subtype, end.Status
	switch {
	case len(end.Errors) > 0:
		t.message = cutText(strings.Join(end.Errors, "; "), process.MaxReason)
	case !end.blank():
		t.message = cutText(*end.Text, process.MaxReason)
	case !end.Failed && end.unanswered():
		t.reason, t.message = cutText(end.Reason, 200), end.whyUnanswered()
	}
	if t.status == 0 && end.Failed {
		t.readWords()
	}
	if t.message == "" {
		t.message = "Claude Code ended with " + end.Subtype
	}
}

// fault returns the run's error.
func (t failure) fault(c config, session string, exit process.Exit) *fault.Fault {
	f := t.classify(c, session, exit)
	if t.status > 0 {
		f.With("api_status", t.status)
	}
	if exit.Hit.Limit != "" {
		f.With("limit", exit.Hit.Limit)
	}
	return f
}

func (t failure) classify(c config, session string, exit process.Exit) *fault.Fault {
	say := func(code, advice string) *fault.Fault {
		said := strings.TrimRight(strings.TrimSpace(t.message), ".")
		return fault.New(fault.Internal, code, said+". "+advice)
	}
	stderr := string(exit.Stderr)
	switch {
	case strings.Contains(t.message, "No conversation found") || t.subtype == "" &&
		strings.Contains(stderr, "No conversation found"):
		return sessionNotFound("it knows no session "+session).With("executor_session_id", session)
	case t.subtype == "error_max_turns":
		return say(codeMaxTurns,
			"Resume the session to continue, or raise max_turns in the agent or the profile's config").
			With("max_turns", c.MaxTurns)
	}
	if f := t.apiFault(c, say); f != nil {
		return f
	}
	switch {
	case t.subtype == "" && strings.Contains(stderr, "root/sudo"):
		return fault.New(fault.Internal, codePermissionMode,
			"Claude Code refuses the permission mode bypassPermissions to root. Run the worker as another user, or "+
				"use acceptEdits or dontAsk with allowed_tools in the profile's config; in a disposable "+
				"sandbox, allow IS_SANDBOX in the profile's env and set it to 1")
	case t.subtype == "" && strings.Contains(stderr, "unknown option"):
		return fault.New(fault.Internal, codeFailed, exit.Reason()+
			". This Claude Code is too old for the profile's config, or too new for this worker; versions 2.1.197 "+
			"and 2.1.332 are known to work").With("exit_code", exit.Code)
	case t.reason != "":
		return fault.New(fault.Internal, codeFailed, t.message).With("terminal_reason", t.reason)
	case t.message != "" && exit.Hit.Limit != "":
		return fault.New(fault.Internal, codeFailed, exit.Hit.String()+": "+t.message).With("exit_code", exit.Code)
	case t.message != "":
		return fault.New(fault.Internal, codeFailed, t.message).With("exit_code", exit.Code)
	}
	return fault.New(fault.Internal, codeFailed, "Claude Code ended without a result: "+exit.Reason()).
		With("exit_code", exit.Code)
}

// apiFault returns the run's error for an API error; nil: none that is known.
func (t failure) apiFault(c config, say func(code, advice string) *fault.Fault) *fault.Fault {
	switch {
	case t.kind == "billing_error":
		return say(codeNoCredit, "Add credit to the account that the worker's Claude Code uses, or use another account")
	case t.status == 529 || t.kind == "overloaded":
		return say(codeOverloaded, "Try again later, or name a fallback_model in the profile's config").After(t.wait)
	case t.kind == "rate_limit" || t.status == 429:
		return t.rateLimited(say)
	case t.status == 403 && t.kind != "oauth_org_not_allowed": // perhaps of this model only
		return say(codeForbidden, "Name another model in the agent or the profile's config, or log in with an account "+
			"that may do this")
	case t.kind == "authentication_failed" || t.kind == "oauth_org_not_allowed" || t.status == 401:
		return say(codeNotLoggedIn,
			"Log in as the worker's user: run claude and /login there, or allow ANTHROPIC_API_KEY or "+
				"CLAUDE_CODE_OAUTH_TOKEN (from claude setup-token) in the profile's env and set it for the worker")
	case t.kind == "model_not_found" || t.status == 404:
		f := say(codeModelNotFound, "Name another model in the agent or the profile's config, or leave it out")
		if c.Model != "" {
			f.With("model", c.Model)
		}
		return f
	}
	return nil
}

func (t failure) rateLimited(say func(code, advice string) *fault.Fault) *fault.Fault {
	switch {
	case !t.resets.IsZero():
		return say(codeRateLimited, "Resume the session after "+t.resets.UTC().Format(time.RFC3339)).
			With("resets_at", t.resets.UTC().Format(time.RFC3339))
	case t.wait > 0:
		return say(codeRateLimited, fmt.Sprintf("Resume the session in %s", t.wait.Round(time.Second))).
			With("retry_after_seconds", int(t.wait.Round(time.Second).Seconds())).After(t.wait)
	}
	return say(codeRateLimited, "Resume the session later, or lower the profile's max_concurrent_runs")
}
