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

// The codes of errors of these runs; shared/docs/llm.md says what to do about each.
const (
	codeConfig       = "llm_config"
	codeUnauthorized = "llm_unauthorized"
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

// verdict is what an error of a call means: the run's error, and whether the same call may succeed later.
type verdict struct {
	*fault.Fault
	again bool
	after time.Duration // when the endpoint wants to be asked again; 0: it did not say
}

// judge says what an error of a call means.
func (s settings) judge(err error, now time.Time) verdict {
	where := "The endpoint " + s.address()
	if e, ok := errors.AsType[*endpoint.Unreachable](err); ok {
		return verdict{Fault: s.fault(codeUnreachable, where+" cannot be reached: "+e.Why+"; check base_url, and whether it runs"), again: true}
	}
	if e, ok := errors.AsType[*endpoint.Stranger](err); ok {
		return verdict{Fault: s.fault(codeUnreachable, where+" is not the API: "+e.Why+"; check base_url")}
	}
	if e, ok := errors.AsType[*endpoint.Broken](err); ok {
		return verdict{Fault: s.fault(codeBroken, "The answer of "+s.address()+" broke off: "+e.Why), again: true}
	}
	if e, ok := errors.AsType[*endpoint.Refusal](err); ok {
		return s.refused(e, now)
	}
	return verdict{Fault: s.fault(codeBroken, "The call of "+s.address()+" failed: "+endpoint.Trouble(err))}
}

// refused says what it means that the endpoint answered with an error.
func (s settings) refused(e *endpoint.Refusal, now time.Time) verdict {
	where, said := "The endpoint "+s.address(), ""
	if e.Message != "" {
		said = ": " + e.Message
	}
	after := wait(e.Header, now)
	status := func(code, message string) *fault.Fault {
		return s.fault(code, message).With("http_status", e.Status)
	}
	switch {
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		return verdict{Fault: status(codeUnauthorized, where+" refuses the credential"+said+"; "+s.keyAdvice())}
	case e.Status == http.StatusPaymentRequired || e.Code == "insufficient_quota" || strings.Contains(e.Message, "credit balance is too low"):
		return verdict{Fault: status(codeRateLimited, where+" says that the account has nothing left"+said+"; add credit, or use another key")}
	case e.Status == http.StatusTooManyRequests:
		return verdict{Fault: status(codeRateLimited, where+" limits the rate"+said), again: true, after: after}
	case e.Status == http.StatusNotFound && e.API && strings.Contains(strings.ToLower(e.Code+" "+e.Message), "model"):
		return verdict{Fault: status(codeNoModel, fmt.Sprintf("%s has no model %q%s; name one that it has, or fetch it there first", where, s.Model, said))}
	case e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed:
		return verdict{Fault: status(codeUnreachable, where+" is not the API: it answers "+fmt.Sprint(e.Status)+said+"; check base_url")}
	case e.Status == 529 || e.Status >= 500 || e.Status == http.StatusRequestTimeout || e.Status == http.StatusConflict:
		return verdict{Fault: status(codeOverloaded, fmt.Sprintf("%s is overloaded or in trouble (HTTP %d)%s; try again later", where, e.Status, said)), again: true, after: after}
	case e.Code == "model_not_found":
		return verdict{Fault: status(codeNoModel, fmt.Sprintf("%s has no model %q%s", where, s.Model, said))}
	}
	advice := "; check model, max_tokens, temperature and the tools' schemas"
	if long := strings.ToLower(e.Code + " " + e.Message); e.Status == http.StatusRequestEntityTooLarge || strings.Contains(long, "context") || strings.Contains(long, "too long") {
		advice = "; the conversation is too long for the model: lower max_history_bytes or max_tool_output_bytes, or start a new session"
	}
	return verdict{Fault: status(codeBadRequest, fmt.Sprintf("%s refuses the request (HTTP %d)%s%s", where, e.Status, said, advice))}
}

func (s settings) fault(code, message string) *fault.Fault {
	return fault.New(fault.Internal, code, s.hide(message)).With("provider", s.Provider).With("model", s.Model)
}

// keyAdvice says where the key should be.
func (s settings) keyAdvice() string {
	switch {
	case *s.KeyEnv == "":
		return `no key is sent, as api_key_env is ""`
	case s.key == "":
		return "the worker's environment has no " + *s.KeyEnv + "; set it and start the worker again"
	}
	return "the key is that of " + *s.KeyEnv + " in the worker's environment"
}

// stopped is the error of an answer that ended for another reason than its end; nil where it is whole.
func (s settings) stopped(r chat.Reply) *fault.Fault {
	var f *fault.Fault
	switch r.Stop {
	case chat.StopLength:
		f = fault.New(fault.Internal, codeLength, "The model had no tokens left before its answer was whole; raise max_tokens, or ask for less")
	case chat.StopRefused:
		f = fault.New(fault.Internal, codeRefused, "The model, or a filter of its provider, declined to answer; change the prompt")
	default:
		return nil
	}
	return f.With("provider", s.Provider).With("model", s.Model)
}
