package run

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"ao/shared/strictjson"
)

// DecodeQueued reads a queued or an accepted record (which has no attempt and no key). Parameters and agent are
// slices of raw. Frequent names go through name, which may share the memory of equal ones; nil: no sharing.
func DecodeQueued(raw []byte, name func([]byte) string) (q Queued, err error) {
	if name == nil {
		name = func(v []byte) string { return string(v) }
	}
	s := &q.Spec
	var in Input
	var wrong error
	err = strictjson.Scan(raw, func(key, v []byte) {
		switch string(key) {
		case "v":
			q.V = int(strictjson.Uint(v))
		case "attempt":
			q.Attempt = int(strictjson.Uint(v))
		case "key":
			q.Key = strictjson.String(v)
		case "record_version":
			q.RecordVersion = int(strictjson.Uint(v))
		case "returnable":
			q.Returnable = string(v) == "true"
		case "run_id":
			s.ID = strictjson.String(v)
		case "type":
			s.Type = name(strictjson.StringBytes(v))
		case "session_id":
			s.SessionID = strictjson.String(v)
		case "agent_name":
			s.Agent = name(strictjson.StringBytes(v))
		case "agent_type":
			s.AgentType = name(strictjson.StringBytes(v))
		case "mode":
			s.Mode = name(strictjson.StringBytes(v))
		case "parent_session_id":
			s.Parent = strictjson.String(v)
		case "depth":
			s.Depth = int(min(strictjson.Uint(v), MaxDepth))
		case "project_dir":
			s.ProjectDir = name(strictjson.StringBytes(v))
		case "demands":
			if string(v) != "null" {
				wrong = errors.Join(wrong, s.Demands.read(v, name))
			}
		case "owner":
			s.Owner = name(strictjson.StringBytes(v))
		case "timeout_seconds":
			s.Timeout = int(strictjson.Uint(v))
		case "timeout_by":
			s.TimeoutBy = name(strictjson.StringBytes(v))
		case "max_attempts":
			s.Attempts = int(strictjson.Uint(v))
		case "callback_url":
			s.CallbackURL = strictjson.String(v)
		case "executor_session_id":
			s.ExecutorSessionID = strictjson.String(v)
		case "after_run_id":
			s.PreviousRunID = strictjson.String(v)
		case "caller":
			s.Caller = name(strictjson.StringBytes(v))
		case "callback_turn":
			s.IsCallbackTurn = string(v) == "true"
		case "created_at":
			s.CreatedAt = ParseTime(v)
		case "trace":
			wrong = errors.Join(wrong, json.Unmarshal(v, &s.Trace))
		case "retry_of":
			s.RetryOf = strictjson.String(v)
		case "request_hash":
			s.RequestHash = strictjson.String(v)
		case "asked":
			wrong = errors.Join(wrong, json.Unmarshal(v, &s.Requested))
		case "payload":
			wrong = errors.Join(wrong, json.Unmarshal(v, &s.Body))
		case "agent_hash":
			s.AgentHash = name(strictjson.StringBytes(v))
		case "parameters":
			in.Parameters = v
		case "agent_blueprint":
			in.Blueprint = v
		case "contract":
			s.HasOutputSchema = string(v) == "true"
		case "output":
			wrong = errors.Join(wrong, json.Unmarshal(v, &in.Output))
		}
	})
	if in.Parameters != nil || in.Blueprint != nil || in.Output != nil {
		s.Input = &in
	}
	return q, errors.Join(err, wrong)
}

// NextRecord returns the record that a session, claimed or callback record contains, as it is to be written; nil: none.
func NextRecord(raw []byte) (next []byte) {
	if strictjson.Scan(raw, func(key, v []byte) {
		if string(key) == "next" {
			next = v
		}
	}) != nil || !strictjson.Valid(next) {
		return nil
	}
	return next
}

// DecodeEnded reads an end record. The result's data are slices of raw.
func DecodeEnded(raw []byte) (e Ended, err error) {
	var wrong error
	read := func(v []byte, into any) { wrong = errors.Join(wrong, json.Unmarshal(v, into)) }
	err = strictjson.Scan(raw, func(key, v []byte) {
		switch string(key) {
		case "v":
			e.V = int(strictjson.Uint(v))
		case "session_id":
			e.SessionID = strictjson.String(v)
		case "runner_id":
			e.RunnerID = strictjson.String(v)
		case "nonce":
			e.Nonce = strictjson.String(v)
		case "attempt":
			e.Attempt = int(strictjson.Uint(v))
		case "status":
			e.Status = Status(strictjson.String(v))
		case "error":
			read(v, &e.Error)
		case "result":
			if string(v) != "null" {
				e.Result = &Result{}
				wrong = errors.Join(wrong, decodeResult(v, e.Result))
			}
		case "payload":
			read(v, &e.Body)
		case "events":
			e.Events = strictjson.Uint(v)
		case "returned":
			e.Returned = string(v) == "true"
		case "checked":
			e.Checked = strictjson.String(v)
		case "started_at":
			if at := ParseTime(v); !at.IsZero() {
				e.StartedAt = &at
			}
		case "at":
			e.At = ParseTime(v)
		}
	})
	return e, errors.Join(err, wrong)
}

// decodeResult reads a result document. It validates all of it, since a worker's data go into responses as they are.
func decodeResult(raw []byte, r *Result) error {
	if !strictjson.Valid(raw) {
		return errors.New("the result is not JSON")
	}
	var wrong error
	read := func(v []byte, into any) { wrong = errors.Join(wrong, json.Unmarshal(v, into)) }
	err := strictjson.Scan(raw, func(key, v []byte) {
		switch string(key) {
		case "result_type":
			r.Type = strictjson.String(v)
		case "result_text":
			r.Text = textOf(v, &wrong)
		case "result_data":
			r.Data = v
		case "exit_code":
			if n, err := strconv.Atoi(string(v)); err == nil {
				r.ExitCode = &n
			} else {
				read(v, &r.ExitCode)
			}
		case "schema_validation":
			r.SchemaValidation = v
		case "raw_output":
			r.RawOutput = textOf(v, &wrong)
		case "note":
			if note := textOf(v, &wrong); note != nil {
				r.Note = *note
			}
		}
	})
	return errors.Join(err, wrong)
}

// textOf returns a string, nil for null. Most need no unescaping.
func textOf(v []byte, wrong *error) *string {
	if len(v) >= 2 && v[0] == '"' {
		text := strictjson.String(v)
		return &text
	}
	var text *string
	*wrong = errors.Join(*wrong, json.Unmarshal(v, &text))
	return text
}

func (d *Demands) read(raw []byte, name func([]byte) string) (wrong error) {
	err := strictjson.Scan(raw, func(key, v []byte) {
		switch string(key) {
		case "hostname":
			d.Hostname = name(strictjson.StringBytes(v))
		case "project_dir":
			d.ProjectDir = name(strictjson.StringBytes(v))
		case "executor_profile":
			d.ExecutorProfile = name(strictjson.StringBytes(v))
		case "executor_type":
			d.ExecutorType = name(strictjson.StringBytes(v))
		case "tags":
			wrong = errors.Join(wrong, json.Unmarshal(v, &d.Tags))
		}
	})
	return errors.Join(wrong, err)
}

// ParseTime returns the time of a JSON value, in UTC, zero for anything else.
func ParseTime(v []byte) time.Time {
	var t time.Time
	if t.UnmarshalJSON(v) != nil {
		return time.Time{}
	}
	return UTC(t)
}

// UTC returns a time in UTC, zero for one that JSON does not hold.
func UTC(t time.Time) time.Time {
	t = t.UTC()
	if t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}
