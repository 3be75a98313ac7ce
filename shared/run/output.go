package run

import "encoding/json"

// Where a run's output schema is from, in the order in which they count (contract section 6).
const (
	SourceRequest   = "request"   // output_schema of the request
	SourceRegistry  = "registry"  // output_schema_name of the request
	SourceBlueprint = "blueprint" // output_schema of the agent
)

// Output is what a run's answer must be: the schema, where it is from, and how it is enforced (contract section 6).
type Output struct {
	Schema  json.RawMessage `json:"schema"`
	Name    string          `json:"schema_name,omitempty"` // in the registry
	Source  string          `json:"schema_source"`
	Retries int             `json:"max_retries"`      // how often the session is asked again, 0 to 10
	Strict  bool            `json:"strict,omitempty"` // only the whole text counts; nothing is looked for in it
}

// Validation is the result document's schema_validation: there where a schema was enforced.
type Validation struct {
	Valid    bool       `json:"valid"`
	Name     *string    `json:"schema_name"`
	Source   string     `json:"schema_source"`
	Retries  int        `json:"retry_count"` // how often the session was asked again
	Rejected []Rejected `json:"rejected,omitempty"`
}

// Rejected is an answer that did not match.
type Rejected struct {
	Attempt int           `json:"attempt"` // from 1: the answer of the run itself
	Errors  []OutputError `json:"errors"`
}

// OutputError is what is wrong with an answer, and where.
type OutputError struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}
