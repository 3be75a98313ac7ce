// Package preview shows what an output schema or an agent's definition would do before it is stored. It writes nothing.
package preview

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"ao/shared/fault"
	"ao/shared/outputschema"
	"ao/shared/run"
	"ao/shared/schema"
	"ao/shared/strictjson"
)

// SchemaRequest asks whether a schema is valid, and whether an answer matches it.
type SchemaRequest struct {
	Schema     json.RawMessage    `json:"schema,omitempty"`
	SchemaText *string            `json:"schema_text,omitempty"` // instead of schema: text that may be no JSON
	Answer     *string            `json:"answer,omitempty"`      // of a model
	Options    *run.OutputOptions `json:"options,omitempty"`     // how the schema is enforced
}

// SchemaVerdict says whether a schema is valid, with all that is wrong with it.
type SchemaVerdict struct {
	Valid  bool           `json:"valid"`
	Errors []Located      `json:"errors"`
	Answer *AnswerVerdict `json:"answer,omitempty"` // only where the schema is valid
}

// Located is a violation with its place in the text that was sent.
type Located struct {
	schema.Violation
	schema.Place
}

// AnswerVerdict is what a worker would make of an answer.
type AnswerVerdict struct {
	Valid      bool        `json:"valid"`  // the chosen candidate matches
	Chosen     *int        `json:"chosen"` // among candidates; null: there is none
	Candidates []Candidate `json:"candidates"`
	Found      int         `json:"found"` // candidates in all; the list has the first of them, and the chosen one
	Message    string      `json:"message,omitempty"`
}

// Candidate is a JSON value in an answer, in the order in which they are preferred.
type Candidate struct {
	Text      string              `json:"text"`
	Truncated bool                `json:"truncated,omitempty"` // text is cut
	Source    outputschema.Source `json:"source"`
	Valid     bool                `json:"valid"`
	Errors    []Located           `json:"errors"`
}

// Limits of an answer that is tried.
const (
	maxAnswer     = 1 << 20
	maxCandidates = 50       // shown
	maxText       = 64 << 10 // of a candidate, shown
	maxWork       = 3 * time.Second
)

// Schema returns the verdict on a schema, and on an answer to it. It ends with ctx.
func (p *Previewer) Schema(ctx context.Context, raw []byte) (SchemaVerdict, error) {
	var req SchemaRequest
	if err := strictjson.DecodeFilled(raw, &req); err != nil {
		return SchemaVerdict{}, err
	}
	text, err := req.text()
	if err != nil {
		return SchemaVerdict{}, err
	}
	var s *schema.Schema
	whole, err := p.Embed(ctx, text)
	if err == nil {
		s, err = schema.Compile(whole)
	}
	if e, ok := errors.AsType[*schema.Error](err); ok {
		return SchemaVerdict{Errors: locate(text, e.Violations)}, nil
	} else if err != nil {
		return SchemaVerdict{}, err
	}
	v := SchemaVerdict{Valid: true, Errors: []Located{}}
	if req.Answer != nil {
		v.Answer, err = p.answer(ctx, s, whole, *req.Answer, p.strict(req.Options))
	}
	return v, err
}

// text returns the schema's text as it was sent.
func (req SchemaRequest) text() (json.RawMessage, error) {
	if req.Options != nil {
		if err := req.Options.CheckSent(); err != nil {
			return nil, err
		}
	}
	switch {
	case req.Schema != nil && req.SchemaText != nil:
		return nil, fault.New(fault.Invalid, "", "schema and schema_text exclude each other; send one of them").
			With("field", "schema_text")
	case req.SchemaText != nil:
		return json.RawMessage(*req.SchemaText), nil
	case req.Schema == nil:
		return nil, fault.New(fault.Invalid, "", "schema is required: a JSON Schema, or its text as schema_text").
			With("field", "schema")
	}
	return req.Schema, nil
}

// strict reports whether only the whole answer counts.
func (p *Previewer) strict(o *run.OutputOptions) bool {
	if o != nil {
		if strict, said := o.Strict(); said {
			return strict
		}
	}
	return p.WholeOnly
}

// answer returns what a worker would take from an answer.
func (p *Previewer) answer(ctx context.Context, s *schema.Schema, raw json.RawMessage, text string,
	strict bool) (*AnswerVerdict, error) {
	if len(text) > maxAnswer {
		return nil, fault.Newf(fault.Invalid, "answer is %d bytes, at most %d can be tried", len(text), maxAnswer).
			With("field", "answer")
	}
	ctx, cancel := context.WithTimeout(ctx, maxWork)
	defer cancel()
	found := outputschema.Find(text, strict, raw, func(v json.RawMessage) bool {
		return ctx.Err() == nil && s.Check(v) == nil
	})
	a := &AnswerVerdict{Candidates: []Candidate{}, Found: len(found.Candidates)}
	if found.Chosen < 0 {
		a.Message = run.NoOutput
		return a, nil
	}
	for i, c := range found.Candidates {
		if i >= maxCandidates && i != found.Chosen {
			continue
		}
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil, ctx.Err()
		}
		if ctx.Err() != nil {
			return nil, fault.New(fault.Invalid, "", "answer takes too long to check against this schema; send less "+
				"of it, or simplify the schema").With("field", "answer")
		}
		if i == found.Chosen {
			a.Chosen = new(len(a.Candidates))
		}
		a.Candidates = append(a.Candidates, candidate(s, c))
	}
	a.Valid = a.Candidates[*a.Chosen].Valid
	return a, nil
}

func candidate(s *schema.Schema, c outputschema.Candidate) Candidate {
	wrong := s.Check(c.Value)
	one := Candidate{Source: c.Source, Valid: wrong == nil, Errors: locate(c.Value, wrong)}
	one.Text = string(c.Value)
	if len(one.Text) > maxText {
		one.Text, one.Truncated = strings.ToValidUTF8(one.Text[:maxText], ""), true
	}
	return one
}

// locate adds to each violation where it stands.
func locate(text []byte, all []schema.Violation) []Located {
	paths := make([]string, len(all))
	for i, v := range all {
		paths[i] = v.Path
	}
	out := make([]Located, len(all))
	for i, at := range schema.Locate(text, paths) {
		out[i] = Located{all[i], at}
	}
	return slices.Clip(out)
}
