package projection

import (
	"ao/shared/run"
	"ao/shared/strictjson"
)

// The fold needs a handful of a record's members and reads hundreds of thousands of records at a start, so it steps
// over parameters, agents and results instead of decoding them.

// scanner reads records, and shares the strings in them that come again and again.
type scanner struct{ names map[string]string }

// spec reads a queued or an accepted record.
func (sc *scanner) spec(body []byte) (run.Queued, error) { return run.DecodeQueued(body, sc.name) }

// claim reads a claimed record. What it carries is a part of body.
func (sc *scanner) claim(body []byte) (c run.Claim, err error) {
	err = strictjson.Scan(body, func(name, v []byte) {
		switch string(name) {
		case "v":
			c.V = int(strictjson.Uint(v))
		case "session_id":
			c.SessionID = strictjson.String(v)
		case "runner_id":
			c.RunnerID = sc.name(strictjson.StringBytes(v))
		case "instance":
			c.Instance = sc.name(strictjson.StringBytes(v))
		case "nonce":
			c.Nonce = strictjson.String(v)
		case "attempt":
			c.Attempt = int(strictjson.Uint(v))
		case "at":
			c.At = run.ParseTime(v)
		case "proves":
			c.SignsEvents = string(v) == "true"
		case "next":
			c.Next = v
		}
	})
	return c, err
}

// ended reads what the fold needs of an ended record: no error, no result.
func (sc *scanner) ended(body []byte) (e run.Ended, err error) {
	err = strictjson.Scan(body, func(name, v []byte) {
		switch string(name) {
		case "v":
			e.V = int(strictjson.Uint(v))
		case "runner_id":
			e.RunnerID = sc.name(strictjson.StringBytes(v))
		case "status":
			e.Status = run.Status(sc.name(strictjson.StringBytes(v)))
		case "events":
			e.Events = strictjson.Uint(v)
		case "checked":
			e.Checked = strictjson.String(v)
		case "started_at":
			if at := run.ParseTime(v); !at.IsZero() {
				e.StartedAt = &at
			}
		case "at":
			e.At = run.ParseTime(v)
		}
	})
	return e, err
}

// scanVersion reads the version of any record.
func scanVersion(body []byte) (v int, err error) {
	err = strictjson.Scan(body, func(name, value []byte) {
		if string(name) == "v" {
			v = int(strictjson.Uint(value))
		}
	})
	return v, err
}

// scanDeleted reads a deleted record; one of an older version names no parent.
func scanDeleted(body []byte) (version int, parent string, err error) {
	err = strictjson.Scan(body, func(name, value []byte) {
		switch string(name) {
		case "v":
			version = int(strictjson.Uint(value))
		case "parent_session_id":
			parent = strictjson.String(value)
		}
	})
	return version, parent, err
}

// maxNames is how many different names the fold keeps to share them; further ones stand for themselves.
const maxNames = 1 << 16

// name is a string for values that come again and again: equal ones share their memory.
func (sc *scanner) name(v []byte) string {
	if s, ok := sc.names[string(v)]; ok {
		return s
	}
	s := string(v)
	if len(sc.names) < maxNames {
		sc.names[s] = s
	}
	return s
}
