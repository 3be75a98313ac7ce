package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"ao/coordinator/cmd/ao/connection"
	"ao/coordinator/cmd/ao/screen"
	client "ao/shared/clients/go"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// The exit codes. The code of a procedural run's program is printed, not passed on: it could be mistaken for one of
// these.
const (
	exitDone        = 0
	exitFailed      = 1 // the run failed, or the coordinator refused
	exitUsage       = 2
	exitStopped     = 3
	exitWaitTimeout = 4 // the wait timed out
	exitUnreachable = 5
	exitInterrupted = 130
)

// exitOf is the exit code of a command that waits for a run.
var exitOf = map[run.Status]int{run.Completed: exitDone, run.Failed: exitFailed, run.Stopped: exitStopped}

// usageError is an error of the command line.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// parameterError is a parameter whose type does not match the agent's schema.
type parameterError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// exitCode is an error that was already reported.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// exit prints the error for people, or as JSON, and returns the exit code.
func (a *app) exit(command string, err error) int {
	if err == nil {
		return exitDone
	}
	if code, ok := errors.AsType[exitCode](err); ok {
		return int(code)
	}
	p := a.problem(command, err)
	if p.code == exitDone {
		return exitDone
	}
	if a.json {
		a.errs.println(screen.JSON(p.doc))
		return p.code
	}
	a.errs.println("ao: " + strings.Join(p.lines, "\n"))
	return p.code
}

// problem is an error ready to print.
type problem struct {
	code  int
	lines []string        // for people; the first is the message
	doc   json.RawMessage // for programs: {"error","message",…}
}

func (a *app) problem(command string, err error) problem {
	if refused, ok := connection.Refusal(err); ok {
		return problem{exitFailed, refusalLines(refused), refused.Document}
	}
	newProblem := func(code int, name string, hints ...string) problem {
		text := errorText(err)
		doc, _ := strictjson.Encode(fault.New(fault.Internal, name, text)) // encoding strings cannot fail
		p := problem{code: code, doc: doc, lines: []string{screen.Text(text)}}
		for _, h := range hints {
			p.lines = append(p.lines, "hint: "+h)
		}
		return p
	}
	switch reason := connection.Reason(err); {
	case errors.As(err, new(parameterError)):
		return newProblem(exitFailed, "parameter_validation_failed", "'ao agents show AGENT' lists its parameters")
	case errors.As(err, new(usageError)) || !a.parsed:
		return newProblem(exitUsage, "usage", "'"+command+" --help' shows its arguments")
	case errors.Is(err, context.Canceled):
		return problem{code: exitInterrupted, lines: []string{"interrupted"},
			doc: json.RawMessage(`{"error":"interrupted","message":"interrupted"}`)}
	case errors.Is(err, syscall.EPIPE): // the reader of our output has closed it
		return problem{code: exitDone}
	case reason == client.NotConnected:
		return newProblem(exitUnreachable, "unreachable",
			"start one with scripts/up, or set its address with --url or AO_URL")
	case reason == client.Untrusted:
		return newProblem(exitUnreachable, "untrusted")
	case reason == client.Lost:
		return newProblem(exitUnreachable, "connection_lost", "'ao health' checks whether the coordinator is ready")
	case reason == client.Foreign:
		return newProblem(exitUnreachable, "not_a_coordinator", "set the coordinator's address with --url or AO_URL")
	}
	return newProblem(exitFailed, "failed")
}

// errorText returns an error's text for people; it names the file of a file error.
func errorText(err error) string {
	if file, ok := err.(*fs.PathError); ok {
		return file.Path + ": " + fault.Describe(err)
	}
	return fault.Describe(err)
}

// refusalLines formats an error of the API: message, violations, fields, hint.
func refusalLines(r *client.APIError) []string {
	f := &fault.Fault{Code: r.Code, Message: r.Message}
	_ = json.Unmarshal(r.Document, f) // the client has parsed it
	lines := faultLines(f)
	fields := map[string]string{}
	for _, f := range f.Fields {
		fields[f.Name] = plainValue(f.Value)
	}
	hint, agent, scope := fields["hint"], fields["agent_name"], fields["scope"]
	switch {
	case hint != "":
	case r.Code == "parameter_validation_failed" && agent != "":
		hint = fmt.Sprintf("'ao agents show %s' lists its parameters", screen.Line(agent))
	case r.Code == "SchemaNotFound":
		hint = "'ao schemas' lists them"
	case r.Status == 404 && (agent != "" || fields["field"] == "agent_name"):
		hint = "'ao agents' lists them"
	case r.Status == 404 && fields["run_id"] != "":
		hint = "'ao runs' lists them"
	case r.Status == 404 && fields["session_id"] != "":
		hint = "'ao sessions' lists them"
	case r.Status == 503:
		hint = "if this persists, 'ao doctor' and the coordinator's log show the cause"
		if r.RetryAfter > time.Second { // every 503 has at least this
			hint = fmt.Sprintf("retry in %s; %s", screen.Duration(r.RetryAfter), hint)
		}
	case r.RetryAfter > 0:
		hint = fmt.Sprintf("retry in %s", screen.Duration(r.RetryAfter))
	case r.Status == 401:
		hint = "set AO_TOKEN (or --token) to a token of this coordinator; its operator creates one with " +
			"'ao tokens create'"
	case r.Status == 403 && scope != "":
		hint = "use a token with scope " + scope +
			" in AO_TOKEN (or --token); the coordinator's operator creates one with 'ao tokens create'"
	}
	if hint != "" {
		lines = append(lines, "hint: "+screen.Line(hint))
	}
	return lines
}

// omittedFields are fields of an error that add nothing for people.
var omittedFields = map[string]bool{"parameters_schema": true, "hint": true, "agent_name": true, "exit_code": true,
	"near": true, "retry_after_seconds": true}

// faultLines formats an error of the API or of a run: message and code, then its fields.
func faultLines(f *fault.Fault) []string {
	first := screen.Text(f.Message)
	if f.Message == "" {
		first = screen.Line(f.Code)
	} else if f.Code != "" {
		first += " (" + screen.Line(f.Code) + ")"
	}
	lines := []string{first}
	for _, field := range f.Fields {
		switch {
		case field.Name == "validation_errors" || field.Name == "errors":
			lines = append(lines, violations(field)...)
		case field.Name == "field" && strings.Contains(f.Message, plainValue(field.Value)):
		case !omittedFields[field.Name] && plainValue(field.Value) != "":
			lines = append(lines, "  "+screen.Line(field.Name)+": "+
				strings.ReplaceAll(screen.Text(plainValue(field.Value)), "\n", "\n    "))
		}
	}
	return lines
}

func violations(field fault.Field) []string {
	raw, _ := field.Value.(json.RawMessage)
	var all []struct {
		Path    string `json:"path"`
		Message string `json:"message"`
	}
	if json.Unmarshal(raw, &all) != nil {
		return []string{"  " + screen.Line(field.Name) + ": " + screen.Line(plainValue(field.Value))}
	}
	var lines []string
	for _, v := range all {
		lines = append(lines, "  "+screen.Line(v.Path)+": "+screen.Line(v.Message))
	}
	return lines
}

// plainValue formats a field's value: a string as it is, anything else as JSON.
func plainValue(value any) string {
	raw, ok := value.(json.RawMessage)
	if !ok {
		return fmt.Sprint(value)
	}
	var s *string
	if json.Unmarshal(raw, &s) == nil {
		if s == nil {
			return ""
		}
		return *s
	}
	return string(raw)
}
