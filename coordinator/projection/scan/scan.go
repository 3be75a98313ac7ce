// Package scan reads what the projection needs of records, without decoding the rest of them.
package scan

import (
	"encoding/json"

	"ao/shared/run"
	"ao/shared/strictjson"
)

// The reducer needs few members of a record, and reads hundreds of thousands of records at a start. So it skips
// parameters, agents and results instead of decoding them.

// Scanner reads records, and shares strings that are often repeated.
type Scanner struct {
	names       map[string]string
	Definitions definitions
}

// New returns a scanner that shares no strings yet.
func New() *Scanner { return &Scanner{map[string]string{}, newDefinitions()} }

// Claim reads a claimed record. What it carries is a part of body.
func (sc *Scanner) Claim(body []byte) (c run.Claim, err error) {
	err = strictjson.Scan(body, func(name, v []byte) {
		switch string(name) {
		case "v":
			c.V = int(strictjson.Uint(v))
		case "session_id":
			c.SessionID = strictjson.String(v)
		case "runner_id":
			c.RunnerID = sc.Name(strictjson.StringBytes(v))
		case "instance":
			c.Instance = sc.Name(strictjson.StringBytes(v))
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

// Ended reads what the reducer needs of an end record: no error, and of a result only where it is.
func (sc *Scanner) Ended(body []byte) (e run.Ended, err error) {
	err = strictjson.Scan(body, func(name, v []byte) {
		switch string(name) {
		case "v":
			e.V = int(strictjson.Uint(v))
		case "attempt":
			e.Attempt = int(strictjson.Uint(v))
		case "runner_id":
			e.RunnerID = sc.Name(strictjson.StringBytes(v))
		case "status":
			e.Status = run.Status(sc.Name(strictjson.StringBytes(v)))
		case "events":
			e.Events = strictjson.Uint(v)
		case "returned":
			e.Returned = string(v) == "true"
		case "checked":
			e.Checked = strictjson.String(v)
		case "payload":
			body := run.Payload{}
			if json.Unmarshal(v, &body) == nil && body.Name != "" {
				e.Body = &body
			}
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

// Version reads the version of any record.
func Version(body []byte) (v int, err error) {
	err = strictjson.Scan(body, func(name, value []byte) {
		if string(name) == "v" {
			v = int(strictjson.Uint(value))
		}
	})
	return v, err
}

// Deleted reads a deleted record. One of an older version names no parent.
func Deleted(body []byte) (version int, parent string, err error) {
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

// maxNames is how many different names are shared. Further ones are not.
const maxNames = 1 << 16

// Name returns a shared string for values that are often repeated.
func (sc *Scanner) Name(v []byte) string {
	if s, ok := sc.names[string(v)]; ok {
		return s
	}
	s := string(v)
	if len(sc.names) < maxNames {
		sc.names[s] = s
	}
	return s
}

// ErrorOf returns the code and message of the error in an end record.
func ErrorOf(body []byte) (code, message string) {
	_ = strictjson.Scan(body, func(name, v []byte) {
		if string(name) != "error" {
			return
		}
		_ = strictjson.Scan(v, func(name, v []byte) {
			switch string(name) {
			case "error":
				code = strictjson.String(v)
			case "message":
				message = strictjson.String(v)
			}
		})
	})
	return code, message
}
