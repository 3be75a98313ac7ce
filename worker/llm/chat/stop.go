package chat

import (
	"slices"
	"strings"
)

// Why a model stopped.
const (
	StopEnd     = "end"
	StopCalls   = "calls"   // it waits for the results of its calls
	StopLength  = "length"  // it used all its tokens
	StopRefused = "refused" // it or a filter declined
	StopFailed  = "failed"  // its endpoint could not go on
	StopUnknown = "unknown" // Reply.Reason is in no known endpoint's list
)

// reasons are the finish reasons of the known endpoints, in lower case and with underscores.
var reasons = map[string][]string{
	StopEnd:   {"", "stop", "stop_sequence", "end_turn", "eos", "eos_token", "complete", "completed"},
	StopCalls: {"tool_calls", "tool_call", "tool_use", "function_call"},
	StopLength: {"length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded",
		"error_limit"},
	StopRefused: {"content_filter", "content_filtered", "refusal", "safety", "image_safety", "recitation", "language",
		"blocklist", "prohibited_content", "spii", "sensitive", "guardrail_intervened", "error_toxic"},
	StopFailed: {"error", "network_error", "abort", "aborted", "cancelled", "canceled", "timeout",
		"insufficient_system_resource", "malformed_function_call",
		"unexpected_tool_call"},
}

// SetStop sets why the model stopped from the endpoint's finish reason. A complete answer with calls waits for their
// results, whatever the reason: some servers send "stop".
func (r *Reply) SetStop(reason string) {
	r.Reason, r.Stop = reason, StopUnknown
	name, _, _ := strings.Cut(strings.ToLower(reason), ":") // content_filter: SAFETY
	name = strings.ReplaceAll(strings.TrimSpace(name), "-", "_")
	for stop, names := range reasons {
		if slices.Contains(names, name) {
			r.Stop = stop
		}
	}
	if len(r.Message.Calls()) > 0 && (r.Stop == StopEnd || r.Stop == StopUnknown) {
		r.Stop = StopCalls
	}
}
