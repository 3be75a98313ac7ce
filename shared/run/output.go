package run

import (
	"encoding/json"
	"fmt"

	"ao/shared/fault"
)

// The sources of a run's output schema, in order of precedence.
const (
	SourceRequest   = "request"   // output_schema of the request
	SourceRegistry  = "registry"  // output_schema_name of the request
	SourceBlueprint = "blueprint" // output_schema of the agent
)

// Output is what a run's answer must be: the schema, its source, and how it is enforced.
type Output struct {
	Schema  json.RawMessage `json:"schema"`
	Name    string          `json:"schema_name,omitempty"` // in the registry
	Source  string          `json:"schema_source"`
	Retries int             `json:"max_retries"`      // how often the session is asked again, 0 to 10
	Strict  bool            `json:"strict,omitempty"` // the whole text must be JSON
}

// Validation is the result's schema_validation, present if a schema was enforced.
type Validation struct {
	Valid   bool    `json:"valid"`
	Name    *string `json:"schema_name"`
	Source  string  `json:"schema_source"`
	Retries int     `json:"retry_count"` // how often the session was asked again

	// Candidates is how many JSON values of the text could have been meant; nil: no text was searched.
	Candidates *int       `json:"candidates,omitempty"`
	Rejected   []Rejected `json:"rejected,omitempty"`
}

// Rejected is an answer that did not match the schema.
type Rejected struct {
	Attempt int           `json:"attempt"` // from 1: the answer of the run itself
	Errors  []OutputError `json:"errors"`
}

// OutputError is an error in an answer, with its place.
type OutputError struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// OutputOptions is output_schema_options: how a schema is enforced. nil and empty mean unset.
type OutputOptions struct {
	MaxRetries     *int   `json:"max_retries,omitempty"`      // 0 to MaxOutputRetries
	ExtractJSON    *bool  `json:"extract_json,omitempty"`     // false: the whole text must be JSON
	StrictJSONOnly *bool  `json:"strict_json_only,omitempty"` // true: the same
	ValidationMode string `json:"validation_mode,omitempty"`  // "strict": the same; or "lenient"
}

// MaxOutputRetries is the largest allowed number of retries.
const MaxOutputRetries = 10

// Check checks every option.
func (o OutputOptions) Check() error {
	if n := o.MaxRetries; n != nil && (*n < 0 || *n > MaxOutputRetries) {
		return invalid("output_schema_options.max_retries", "output_schema_options.max_retries must be from 0 to 10")
	}
	if m := o.ValidationMode; m != "" && m != "strict" && m != "lenient" {
		return invalid("output_schema_options.validation_mode",
			"output_schema_options.validation_mode must be strict or lenient")
	}
	return nil
}

// CheckSent is Check for options that come from a caller now. It also refuses what older versions accepted and stored.
func (o OutputOptions) CheckSent() error {
	if err := o.Check(); err != nil {
		return err
	}
	if o.extractsStrictly() {
		return invalid("output_schema_options", "output_schema_options: extract_json true and validation_mode strict "+
			"contradict each other; leave one of them out")
	}
	return nil
}

func (o OutputOptions) extractsStrictly() bool {
	return o.ExtractJSON != nil && *o.ExtractJSON && o.ValidationMode == "strict"
}

// Consistent returns options that mean the same and that CheckSent accepts.
func (o OutputOptions) Consistent() OutputOptions {
	if o.extractsStrictly() {
		o.ExtractJSON = nil // strict has taken precedence
	}
	return o
}

// Strict reports whether the whole text must be JSON; isSet is false if the options leave it open.
func (o OutputOptions) Strict() (strict, isSet bool) {
	off := o.ExtractJSON != nil && !*o.ExtractJSON
	only := o.StrictJSONOnly != nil && *o.StrictJSONOnly
	isSet = o.ExtractJSON != nil || o.StrictJSONOnly != nil || o.ValidationMode != ""
	return off || only || o.ValidationMode == "strict", isSet
}

// SchemaNotFound returns the fault for a name that the registry does not have.
func SchemaNotFound(name string) *fault.Fault {
	return fault.New(fault.NotFound, "SchemaNotFound",
		fmt.Sprintf("Output schema '%s' not found", name)).With("output_schema_name", name)
}

// NoOutput is the error for an answer without any JSON to check.
const NoOutput = "No JSON output found but output_schema requires structured output"

// OutputInvalid returns the error of a run whose last answer does not match its output schema.
func OutputInvalid(wrong []OutputError, retries int, last string) *fault.Fault {
	many := "retries"
	if retries == 1 {
		many = "retry"
	}
	return fault.New(fault.Internal, "OutputSchemaValidationError",
		fmt.Sprintf("Output validation failed after %d %s", retries, many)).
		With("errors", wrong).With("last_output", last)
}
