// Package fault is the errors that a caller may see. The kind says what the caller may do, the code is for programs,
// the message is one sentence for a person. An unclassified error is Internal, and its text never leaves the process.
package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Kind says what a caller may do about an error.
type Kind uint8

// The kinds.
const (
	Internal     Kind = iota // our failure; no details are shown
	Invalid                  // fix the request
	Unauthorized             // authenticate
	Forbidden                // missing permission
	NotFound                 // no such thing
	Conflict                 // the object is in another state
	Stale                    // the object has changed: read it again
	TooLarge                 // send less
	Busy                     // retry later: too much waits
	Unavailable              // retry later: a dependency is unavailable
)

var kinds = [...]string{"internal", "invalid", "unauthorized", "forbidden", "not_found", "conflict", "stale",
	"too_large", "busy", "unavailable"}

// codes are the default codes of the kinds.
var codes = [...]string{"internal", "invalid_request", "unauthorized", "forbidden", "not_found", "conflict",
	"precondition_failed", "too_large", "too_many_pending", "unavailable"}

func (k Kind) String() string { return kinds[k] }

// statuses are the kinds' codes in HTTP, which every ingress speaks.
var statuses = [...]int{500, 400, 401, 403, 404, 409, 412, 413, 429, 503}

// Status returns the kind's code in HTTP.
func (k Kind) Status() int { return statuses[k] }

// Retryable reports whether an error is not about the request: the same one may be accepted later.
func Retryable(err error) bool {
	k := KindOf(err)
	return err != nil && (k == Internal || k == Busy || k == Unavailable)
}

// Field is a further member of a fault's body.
type Field struct {
	Name  string
	Value any
}

// Fault is an error that a caller may see, and the error of a run. As JSON it is {"error":CODE,"message":…}
// followed by its fields.
type Fault struct {
	Kind       Kind
	Code       string
	Message    string
	Fields     []Field
	RetryAfter time.Duration // Busy and Unavailable: when to retry
	first      string        // of several things that are wrong, which the fields list
	cause      error
}

// New makes a fault; an empty code means the kind's default.
func New(kind Kind, code, message string) *Fault {
	if code == "" {
		code = codes[kind]
	}
	return &Fault{Kind: kind, Code: code, Message: message}
}

// Newf is New with the default code and a formatted message.
func Newf(kind Kind, format string, args ...any) *Fault {
	return New(kind, "", fmt.Sprintf(format, args...))
}

// Wrap is New with a cause for the log, which the caller never sees.
func Wrap(kind Kind, code, message string, cause error) *Fault {
	f := New(kind, code, message)
	f.cause = cause
	return f
}

// With adds a field to the body.
func (f *Fault) With(name string, value any) *Fault {
	f.Fields = append(f.Fields, Field{name, value})
	return f
}

// Text returns the text of a field, also of a fault that was read from JSON.
func (f *Fault) Text(name string) (text string, ok bool) {
	for _, m := range f.Fields {
		if m.Name != name {
			continue
		}
		switch v := m.Value.(type) {
		case string:
			return v, true
		case json.RawMessage:
			err := json.Unmarshal(v, &text)
			return text, err == nil
		}
	}
	return "", false
}

// After sets when to retry.
func (f *Fault) After(d time.Duration) *Fault {
	f.RetryAfter = d
	return f
}

// First sets the first of several problems, for Reason. The body's fields list all.
func (f *Fault) First(wrong string) *Fault {
	f.first = wrong
	return f
}

// Reason returns the message with the first problem.
func (f *Fault) Reason() string {
	if f.first == "" {
		return f.Message
	}
	return f.Message + ": " + f.first
}

func (f *Fault) Error() string {
	if f.cause != nil {
		return f.Message + ": " + f.cause.Error()
	}
	return f.Message
}

func (f *Fault) Unwrap() error { return f.cause }

// Of returns the fault in err. An unclassified error becomes an Internal fault without details.
func Of(err error) *Fault {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f
	}
	return Wrap(Internal, "", "Internal error; see the log for this request's id", err)
}

// KindOf returns the kind of the fault in err, Internal without one.
func KindOf(err error) Kind {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f.Kind
	}
	return Internal
}

// MarshalJSON writes the body for callers.
func (f *Fault) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range append([]Field{{"error", f.Code}, {"message", f.Message}}, f.Fields...) {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := write(&b, m.Name); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := write(&b, m.Value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// write writes a value as it is: nothing here is HTML.
func write(b *bytes.Buffer, v any) error {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // the line's end
	return nil
}

// UnmarshalJSON reads a body back; its kind is not part of it and stays Internal.
func (f *Fault) UnmarshalJSON(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("an error's body is a JSON object, got %.40s", raw)
	}
	*f = Fault{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		switch name {
		case "error":
			err = json.Unmarshal(value, &f.Code)
		case "message":
			err = json.Unmarshal(value, &f.Message)
		default:
			f.Fields = append(f.Fields, Field{name.(string), value})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
