package llm

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"ao/shared/fault"
	"ao/worker/llm/chat"
	"ao/worker/llm/endpoint"
)

// Error codes of these runs; shared/docs/llm.md says what to do about each.
const (
	codeConfig       = "llm_config"
	codeUnauthorized = "llm_unauthorized"
	codeForbidden    = "llm_forbidden"
	codeNoCredit     = "llm_no_credit"
	codeRateLimited  = "llm_rate_limited"
	codeOverloaded   = "llm_overloaded"
	codeNoModel      = "llm_model_not_found"
	codeBadRequest   = "llm_bad_request"
	codeUnreachable  = "llm_unreachable"
	codeBroken       = "llm_stream_broken"
	codeRefused      = "llm_refused"
	codeLength       = "llm_length"
	codeTurns        = "llm_max_turns"
	codeTooLong      = "llm_history_too_large"
	codeHistory      = "llm_history_unavailable"
)

// callError is a failed call: the run's error, and whether a retry may help.
type callError struct {
	*fault.Fault
	retryable bool
	after     time.Duration // wait that the endpoint asked for; 0: none
}

func (s settings) classify(err error, now time.Time) callError {
	where := "the endpoint " + s.address()
	if e, ok := errors.AsType[*endpoint.Unreachable](err); ok {
		return callError{Fault: s.fault(codeUnreachable, where+" cannot be reached: "+e.Reason+
			"; check base_url, and whether it runs"), retryable: true}
	}
	if e, ok := errors.AsType[*endpoint.NotAnAPI](err); ok {
		return callError{Fault: s.fault(codeUnreachable, where+" is not the API: "+e.Reason+"; check base_url")}
	}
	if e, ok := errors.AsType[*endpoint.BrokenResponse](err); ok {
		return callError{Fault: s.fault(codeBroken, "the answer of "+s.address()+" is incomplete: "+e.Reason),
			retryable: true}
	}
	if e, ok := errors.AsType[*endpoint.APIError](err); ok {
		return s.classifyRefusal(e, now)
	}
	return callError{Fault: s.fault(codeBroken, "the call of "+s.address()+" failed: "+endpoint.Describe(err))}
}

// classifyRefusal returns what an error response means.
func (s settings) classifyRefusal(e *endpoint.APIError, now time.Time) callError {
	where, said := "the endpoint "+s.address(), ""
	if e.Message != "" {
		said = ": " + e.Message
	}
	after := retryAfter(e.Header, now)
	status := func(code, message string) *fault.Fault {
		return s.fault(code, message).With("http_status", e.Status)
	}
	switch {
	case e.Status == http.StatusForbidden: // perhaps of this model only
		return callError{Fault: status(codeForbidden, where+" does not allow this"+said+"; name another model, or use "+
			"a key that may do this")}
	case e.Status == http.StatusUnauthorized:
		return callError{Fault: status(codeUnauthorized, where+" refuses the credential"+said+"; "+s.keyAdvice())}
	case e.Status == http.StatusPaymentRequired || e.Code == "insufficient_quota" ||
		strings.Contains(e.Message, "credit balance is too low"):
		return callError{Fault: status(codeNoCredit, where+" reports that the account has no credit left"+said+
			"; add credit, or use another key")}
	case e.Status == http.StatusTooManyRequests:
		return callError{Fault: status(codeRateLimited, where+" limits the rate"+said), retryable: true, after: after}
	case e.Status == http.StatusNotFound && e.API && strings.Contains(strings.ToLower(e.Code+" "+e.Message), "model"):
		return callError{Fault: status(codeNoModel,
			fmt.Sprintf("%s has no model %q%s; name a model that it has, or install it there", where, s.Model, said))}
	case e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed:
		return callError{Fault: status(codeUnreachable, where+" is not the API: it answers "+fmt.Sprint(e.Status)+said+
			"; check base_url")}
	case e.Status == 529 || e.Status >= 500 || e.Status == http.StatusRequestTimeout || e.Status == http.StatusConflict:
		return callError{Fault: status(codeOverloaded,
			fmt.Sprintf("%s is overloaded or failing (HTTP %d)%s; retry later", where, e.Status, said)),
			retryable: true, after: after}
	case e.Code == "model_not_found":
		return callError{Fault: status(codeNoModel, fmt.Sprintf("%s has no model %q%s", where, s.Model, said))}
	}
	advice := "; check model, max_tokens, temperature and the tools' schemas"
	if long := strings.ToLower(e.Code + " " + e.Message); e.Status == http.StatusRequestEntityTooLarge ||
		strings.Contains(long, "context") || strings.Contains(long, "too long") {
		advice = "; the conversation is too long for the model: lower max_history_bytes or max_tool_output_bytes, or " +
			"start a new session"
	}
	return callError{Fault: status(codeBadRequest, fmt.Sprintf("%s refuses the request (HTTP %d)%s%s", where, e.Status,
		said, advice))}
}

func (s settings) fault(code, message string) *fault.Fault {
	return fault.New(fault.Internal, code, s.redact(message)).With("provider", s.Provider).With("model", s.Model)
}

// keyAdvice returns where the key must be.
func (s settings) keyAdvice() string {
	switch {
	case *s.KeyEnv == "":
		return `no key is sent because api_key_env is ""`
	case s.key == "":
		return "the worker's environment has no " + *s.KeyEnv + "; set it and restart the worker"
	}
	return "the key is from " + *s.KeyEnv + " in the worker's environment"
}

// unusable returns why an answer that has ended is none; another request may help.
func unusable(r chat.Reply) error {
	if r.Stop == chat.StopFailed || r.Message.Empty() && (r.Stop == chat.StopUnknown || r.Stop == chat.StopCalls) {
		return &endpoint.BrokenResponse{Reason: fmt.Sprintf("it ended with the finish reason %.80q", r.Reason)}
	}
	return nil
}

// incompleteFault returns the error of an incomplete answer; nil: it is complete.
func (s settings) incompleteFault(r chat.Reply) *fault.Fault {
	var f *fault.Fault
	switch r.Stop {
	case chat.StopLength:
		f = fault.New(fault.Internal,
			codeLength,
			"the model used all its tokens before its answer was complete; raise max_tokens or ask for less")
	case chat.StopRefused:
		f = fault.New(fault.Internal, codeRefused,
			"the model, or a filter of its provider, declined to answer; change the prompt")
	default:
		return nil
	}
	return f.With("provider", s.Provider).With("model", s.Model)
}
