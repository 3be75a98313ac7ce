package query

import (
	"bytes"
	"strings"

	"ao/coordinator/projection/state"
	"ao/coordinator/projection/text"
)

// search is a query's text, in lower case.
type search struct {
	text   string
	agents map[string]bool // whether an agent's name contains it
	open   text.Cache
}

// searching returns the query with its text as a further condition.
func (q Query) searching() Query {
	if q.Text == "" {
		return q
	}
	s := &search{text: strings.ToLower(q.Text), agents: map[string]bool{}}
	before := q.also
	q.also = func(f *state.State, r *state.Row) bool { return (before == nil || before(f, r)) && s.finds(f, r) }
	return q
}

// finds reports whether a run matches: by a prefix of its or its session's id, or by its agent, error, prompt
// or parameters.
func (s *search) finds(f *state.State, r *state.Row) bool {
	has, known := s.agents[r.Agent]
	if !known {
		has = strings.Contains(strings.ToLower(r.Agent), s.text)
		s.agents[r.Agent] = has
	}
	return has || strings.HasPrefix(s.text, state.RunPrefix) && strings.HasPrefix(strings.ToLower(r.ID()), s.text) ||
		strings.HasPrefix(s.text, state.SessionPrefix) &&
			strings.HasPrefix(strings.ToLower(r.Session().ID()), s.text) ||
		bytes.Contains(s.open.Text(&f.Texts, r.Text), []byte(s.text)) ||
		bytes.Contains(s.open.Text(&f.Texts, r.Failure), []byte(s.text))
}
