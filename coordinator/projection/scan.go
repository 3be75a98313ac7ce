package projection

import (
	"encoding/json"

	"ao/shared/run"
	"ao/shared/strictjson"
)

// The reducer needs few members of a record, and reads hundreds of thousands of records at a start. So it skips
// parameters, agents and results instead of decoding them.

// scanner reads records, and shares strings that are often repeated.
type scanner struct {
	names       map[string]string
	definitions definitions
}

func newScanner() *scanner { return &scanner{map[string]string{}, newDefinitions()} }

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

// ended reads what the reducer needs of an end record: no error, and of a result only where it is.
func (sc *scanner) ended(body []byte) (e run.Ended, err error) {
	err = strictjson.Scan(body, func(name, v []byte) {
		switch string(name) {
		case "v":
			e.V = int(strictjson.Uint(v))
		case "attempt":
			e.Attempt = int(strictjson.Uint(v))
		case "runner_id":
			e.RunnerID = sc.name(strictjson.StringBytes(v))
		case "status":
			e.Status = run.Status(sc.name(strictjson.StringBytes(v)))
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

// scanVersion reads the version of any record.
func scanVersion(body []byte) (v int, err error) {
	err = strictjson.Scan(body, func(name, value []byte) {
		if string(name) == "v" {
			v = int(strictjson.Uint(value))
		}
	})
	return v, err
}

// scanDeleted reads a deleted record. One of an older version names no parent.
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

// maxNames is how many different names are shared. Further ones are not.
const maxNames = 1 << 16

// name returns a shared string for values that are often repeated.
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
