package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"ao/shared/run"
)

// The fold needs a handful of a record's members and reads hundreds of thousands of records at a start, so it steps over
// parameters, agents and results instead of decoding them. Views decode a record whole.

var errUnreadable = errors.New("not a JSON object")

// members calls f with every member of an object, values as they stand. It checks no more than it needs to find its way.
func members(raw []byte, f func(name, value []byte)) error {
	i := space(raw, 0)
	if i >= len(raw) || raw[i] != '{' {
		return errUnreadable
	}
	if i = space(raw, i+1); i < len(raw) && raw[i] == '}' {
		return nil
	}
	for i < len(raw) && raw[i] == '"' {
		end := stringEnd(raw, i)
		if end < 0 {
			return errUnreadable
		}
		name := raw[i+1 : end-1]
		if i = space(raw, end); i >= len(raw) || raw[i] != ':' {
			return errUnreadable
		}
		i = space(raw, i+1)
		if end = valueEnd(raw, i); end <= i {
			return errUnreadable
		}
		f(name, raw[i:end:end])
		if i = space(raw, end); i >= len(raw) {
			return errUnreadable
		}
		switch raw[i] {
		case '}':
			return nil
		case ',':
			i = space(raw, i+1)
		default:
			return errUnreadable
		}
	}
	return errUnreadable
}

func space(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\t' || raw[i] == '\r') {
		i++
	}
	return i
}

// stringEnd is the place after the string that begins at i, -1 where it has no end.
func stringEnd(raw []byte, i int) int {
	for i++; i < len(raw); {
		n := bytes.IndexByte(raw[i:], '"')
		if n < 0 {
			return -1
		}
		back := 0
		for j := i + n - 1; j >= i && raw[j] == '\\'; j-- {
			back++
		}
		if i += n + 1; back%2 == 0 {
			return i
		}
	}
	return -1
}

// valueEnd is the place after the value that begins at i, -1 where it has no end.
func valueEnd(raw []byte, i int) int {
	depth := 0
	for i < len(raw) {
		switch raw[i] {
		case '"':
			if i = stringEnd(raw, i); i < 0 {
				return -1
			}
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ' ', '\n', '\t', '\r', ':':
			i++
			continue
		default:
			for i < len(raw) && !ends(raw[i]) {
				i++
			}
		}
		if depth <= 0 {
			return i
		}
	}
	return -1
}

func ends(c byte) bool {
	return c == ',' || c == ']' || c == '}' || c == ' ' || c == '\n' || c == '\t' || c == '\r'
}

// text is the string of a value, empty for anything else.
func text(v []byte) string {
	if len(v) < 2 || v[0] != '"' {
		return ""
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : len(v)-1])
	}
	var s string
	json.Unmarshal(v, &s) // what cannot be read is empty
	return s
}

// number is the unsigned integer of a value, 0 for anything else.
func number(v []byte) (n uint64) {
	for _, c := range v {
		if c < '0' || c > '9' || n > 1<<60 {
			return 0
		}
		n = n*10 + uint64(c-'0')
	}
	return n
}

func instant(v []byte) time.Time {
	var t time.Time
	if len(v) > 0 && v[0] == '"' {
		t.UnmarshalJSON(v) // what cannot be read is zero
	}
	return t
}

// scanSpec reads a queued or an accepted record: everything but what is in parameters and agent, which stay as they stand.
func (f *fold) scanSpec(body []byte) (q run.Queued, err error) {
	s := &q.Spec
	var in run.Input
	err = members(body, func(name, v []byte) {
		switch string(name) {
		case "v":
			q.V = int(number(v))
		case "attempt":
			q.Attempt = int(number(v))
		case "key":
			q.Key = text(v)
		case "type":
			s.Type = f.name(v)
		case "session_id":
			s.SessionID = text(v)
		case "agent_name":
			s.Agent = f.name(v)
		case "agent_type":
			s.AgentType = f.name(v)
		case "mode":
			s.Mode = f.name(v)
		case "parent_session_id":
			s.Parent = text(v)
		case "project_dir":
			s.ProjectDir = f.name(v)
		case "demands":
			if len(v) > 2 {
				err = errors.Join(err, json.Unmarshal(v, &s.Demands))
			}
		case "owner":
			s.Owner = f.name(v)
		case "timeout_seconds":
			s.Timeout = int(number(v))
		case "timeout_by":
			s.TimeoutBy = f.name(v)
		case "created_at":
			s.CreatedAt = instant(v)
		case "payload":
			err = errors.Join(err, json.Unmarshal(v, &s.Body))
		case "parameters":
			in.Parameters = v
		case "agent_blueprint":
			in.Blueprint = v
		}
	})
	if in.Parameters != nil || in.Blueprint != nil {
		s.Input = &in
	}
	return q, err
}

// scanClaim reads a claimed record.
func (f *fold) scanClaim(body []byte) (c run.Claim, err error) {
	err = members(body, func(name, v []byte) {
		switch string(name) {
		case "v":
			c.V = int(number(v))
		case "session_id":
			c.SessionID = text(v)
		case "runner_id":
			c.RunnerID = f.name(v)
		case "instance":
			c.Instance = f.name(v)
		case "nonce":
			c.Nonce = text(v)
		case "attempt":
			c.Attempt = int(number(v))
		case "at":
			c.At = instant(v)
		}
	})
	return c, err
}

// scanEnded reads what the fold needs of an ended record: no error, no result.
func (f *fold) scanEnded(body []byte) (e run.Ended, err error) {
	err = members(body, func(name, v []byte) {
		switch string(name) {
		case "v":
			e.V = int(number(v))
		case "runner_id":
			e.RunnerID = f.name(v)
		case "status":
			e.Status = run.Status(f.name(v))
		case "events":
			e.Events = number(v)
		case "started_at":
			if at := instant(v); !at.IsZero() {
				e.StartedAt = &at
			}
		case "at":
			e.At = instant(v)
		}
	})
	return e, err
}

// scanVersion reads the version of any record.
func scanVersion(body []byte) (v int, err error) {
	err = members(body, func(name, value []byte) {
		if string(name) == "v" {
			v = int(number(value))
		}
	})
	return v, err
}

// maxNames is how many different names the fold keeps to share them; further ones stand for themselves.
const maxNames = 1 << 16

// name is text for values that come again and again: equal ones share their memory.
func (f *fold) name(v []byte) string {
	if len(v) < 2 || v[0] != '"' {
		return ""
	}
	if s, ok := f.names[string(v[1:len(v)-1])]; ok {
		return s
	}
	s := text(v)
	if len(f.names) < maxNames && s == string(v[1:len(v)-1]) {
		f.names[s] = s
	}
	return s
}
