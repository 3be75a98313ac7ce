// Package fault is the errors that a caller may see. A fault's kind says what the caller may do, its code is
// for programs, its message is one sentence for a person. Whatever nobody classified is Internal, and its
// text leaves the process never.
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

// The kinds. Each ingress has one table from kind to its own answer.
const (
	Internal     Kind = iota // our trouble; nothing of it is told
	Invalid                  // mend the request
	Unauthorized             // say who you are
	Forbidden                // not for you
	NotFound                 // no such thing
	Conflict                 // the thing is in another state
	Stale                    // the thing is not what the caller saw: look again
	TooLarge                 // send less
	Busy                     // come again later: too much waits
	Unavailable              // come again later: something we need is away
)

var kinds = [...]string{"internal", "invalid", "unauthorized", "forbidden", "not_found", "conflict", "stale", "too_large", "busy", "unavailable"}

// codes are the codes of kinds that have no more telling one.
var codes = [...]string{"internal", "invalid_request", "unauthorized", "forbidden", "not_found", "conflict", "precondition_failed", "too_large", "too_many_pending", "unavailable"}

func (k Kind) String() string { return kinds[k] }

// Field is one more member of a fault's body, in the order given.
type Field struct {
	Name  string
	Value any
}

// Fault is an error that a caller may see, and the error of a run. As JSON it is
// {"error":CODE,"message":…} followed by its fields.
type Fault struct {
	Kind       Kind
	Code       string
	Message    string
	Fields     []Field
	RetryAfter time.Duration // Busy and Unavailable: when to come again
	first      string        // of several things that are wrong, which the fields list
	cause      error
}

// New is a fault of a kind; an empty code stands for the kind's own.
func New(kind Kind, code, message string) *Fault {
	if code == "" {
		code = codes[kind]
	}
	return &Fault{Kind: kind, Code: code, Message: message}
}

// Newf is New with the kind's own code and a formatted message.
func Newf(kind Kind, format string, args ...any) *Fault {
	return New(kind, "", fmt.Sprintf(format, args...))
}

// Wrap is New with the cause kept for the log; the caller never sees it.
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

// After says when to come again.
func (f *Fault) After(d time.Duration) *Fault {
	f.RetryAfter = d
	return f
}

// First notes the first of several things that are wrong, for who has one line only (Reason). The body's fields list them all.
func (f *Fault) First(wrong string) *Fault {
	f.first = wrong
	return f
}

// Reason is the message with the first thing that is wrong.
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

// Of gives the fault in err; anything unclassified becomes an Internal one without inner details.
func Of(err error) *Fault {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f
	}
	return Wrap(Internal, "", "Something went wrong inside; the log has it under this request's id", err)
}

// KindOf gives the kind of the fault in err; Internal where there is none.
func KindOf(err error) Kind {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f.Kind
	}
	return Internal
}

// MarshalJSON writes the body that callers get.
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
