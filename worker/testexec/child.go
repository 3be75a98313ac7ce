package testexec

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// maxAnswer is the most bytes read of an API response.
const maxAnswer = 32 << 20

// startChild starts a child run of this session: AGENT MODE PARAMETERS, where parameters are a JSON object or the
// prompt.
func startChild(ctx context.Context, t *turn, text string) error {
	agent, rest, _ := strings.Cut(text, " ")
	mode, params, _ := strings.Cut(strings.TrimSpace(rest), " ")
	if t.host.URL == "" {
		return fault.New(fault.Invalid, "no_api",
			"@child needs the orchestrator's API, which this run does not have; set AO_API_URL for the worker")
	}
	ask := map[string]any{"agent_name": agent, "mode": mode}
	params = strings.TrimSpace(params)
	if strings.HasPrefix(params, "{") {
		ask["parameters"] = json.RawMessage(params)
	} else {
		ask["prompt"] = params
	}
	if mode == run.AsyncCallback {
		ask["parent_session_id"] = t.inv.SessionID
	}
	body, err := strictjson.Encode(ask)
	if err != nil {
		return isJSON("@child "+agent, params)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.host.URL+"/api/runs", bytes.NewReader(body))
	if err != nil {
		return notStarted(err)
	}
	req.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return notStarted(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return fault.Wrap(fault.Internal, "child_not_started", "the API's response is incomplete", err)
	}
	if answer.StatusCode >= 300 {
		return fault.New(fault.Internal, "child_not_started", "the API refused the child: "+string(raw)).
			With("status", answer.StatusCode)
	}
	var end struct {
		Result *run.Result `json:"result"`
	}
	if json.Unmarshal(raw, &end) == nil && end.Result != nil {
		t.childResult = end.Result.Data
		if end.Result.Text != nil {
			t.childResult, err = strictjson.Encode(*end.Result.Text)
		}
		t.childResult = bytes.TrimSpace(t.childResult)
	}
	return err
}

// notStarted returns why the gateway request failed, without its URL, which is a secret.
func notStarted(err error) error {
	if bad, ok := errors.AsType[*url.Error](err); ok {
		err = bad.Err
	}
	return fault.Wrap(fault.Internal, "child_not_started", "cannot start the child: "+err.Error(), err)
}

// showToolCall emits the events of a tool call that never happens.
func showToolCall(_ context.Context, t *turn, text string) error {
	name, rest, _ := strings.Cut(text, " ")
	input, output, _ := strings.Cut(rest, "=>")
	call := map[string]any{"tool_name": name, "tool_input": json.RawMessage(cmp.Or(strings.TrimSpace(input), "{}"))}
	before, err := strictjson.Encode(call)
	if err != nil {
		return isJSON("@tool "+name, input)
	}
	call["tool_output"], call["error"] = json.RawMessage(cmp.Or(strings.TrimSpace(output), "null")), nil
	after, err := strictjson.Encode(call)
	if err != nil {
		return isJSON("@tool "+name, output)
	}
	t.host.Emit(run.EventPreTool, before)
	t.host.Emit(run.EventPostTool, after)
	return nil
}
