package httpapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"

	"ao/coordinator/audit"
	"ao/coordinator/runs"
	"ao/shared/fault"
	"ao/shared/strictjson"

	"github.com/gin-gonic/gin"
)

// bulkAPI serves calls about many runs.
type bulkAPI struct {
	again Bulk
	audit *recorder
}

// redeliverMany has the members of a call beside the filters of its list; retryMany and stopMany have more.
type redeliverMany struct {
	Expect *int `json:"expect,omitempty"`
}

type retryMany struct {
	Error  string `json:"error,omitempty"`
	Expect *int   `json:"expect,omitempty"`
}

type stopMany struct {
	Error  string `json:"error,omitempty"`
	Expect *int   `json:"expect,omitempty"`
	Tree   bool   `json:"tree,omitempty"`
}

// asMembers describes a list's parameters as members of a body.
func asMembers(filters []string) obj {
	all := obj{}
	for _, name := range filters {
		member := maps.Clone(parameters[name]["schema"].(obj))
		member["description"] = parameters[name]["description"]
		all[name] = member
	}
	return all
}

func (a *bulkAPI) stop(g *gin.Context, in request) (any, error) {
	q, err := readFilters(in.body, runFilters, "error", "expect", "tree")
	if err != nil {
		return nil, err
	}
	m, tree := manyRuns(&q), q.flag("tree")
	if q.err != nil {
		return nil, q.err
	}
	done, err := a.again.StopAll(g.Request.Context(), m, tree)
	return a.result(g, done, audit.Targets{Tree: tree}, err)
}

func (a *bulkAPI) retry(g *gin.Context, in request) (any, error) {
	q, err := readFilters(in.body, runFilters, "error", "expect")
	if err != nil {
		return nil, err
	}
	m := runs.RetrySelection{Selection: manyRuns(&q), Scope: caller(g).KeyScope()}
	if q.err != nil {
		return nil, q.err
	}
	m.Key, err = idempotencyKey(g.Request.Header)
	if err != nil {
		return nil, err
	}
	done, err := a.again.RetryAll(g.Request.Context(), m)
	return a.result(g, done, audit.Targets{}, err)
}

func (a *bulkAPI) redeliver(g *gin.Context, in request) (any, error) {
	q, err := readFilters(in.body, filters, "expect")
	if err != nil {
		return nil, err
	}
	m := runs.Selection{Expect: expected(&q)}
	m.Filter, err = listing(q)
	if err != nil {
		return nil, err
	}
	done, err := a.again.RedeliverAll(g.Request.Context(), m)
	return a.result(g, done, audit.Targets{}, err)
}

// result answers a bulk call and notes its size.
func (a *bulkAPI) result(g *gin.Context, done runs.BulkResult, t audit.Targets, err error) (any, error) {
	t.Runs = done.Count
	a.audit.changed(g, t)
	return done, err
}

// manyRuns reads which runs a call is about. Errors are kept in q.
func manyRuns(q *params) runs.Selection {
	m := runs.Selection{Error: q.text("error"), Expect: expected(q)}
	var err error
	m.Filter, err = listingRuns(*q)
	q.err = cmp.Or(q.err, err)
	return m
}

// expected returns how many runs the caller has seen; nil: it does not say.
func expected(q *params) *int {
	if !q.values.Has("expect") {
		return nil
	}
	return new(q.number("expect", 0, 0, 1<<31-1))
}

// readFilters reads a body with a list's filters and further members, like a query.
func readFilters(raw []byte, filters []string, others ...string) (params, error) {
	if err := strictjson.Check(raw); err != nil {
		return params{}, err
	}
	members, err := strictjson.Members(raw)
	if err != nil {
		return params{}, fault.New(fault.Invalid, "", "The body must be a JSON object with the filters of GET /runs")
	}
	known := slices.Concat(filters, others)
	values, narrowed := url.Values{}, false
	for _, m := range members {
		if !slices.Contains(known, m.Key) {
			return params{}, fault.Newf(fault.Invalid, "Unknown field %.80q; known are %s", m.Key,
				strings.Join(known, ", ")).With("field", m.Key)
		}
		text, err := plainText(m)
		if err != nil {
			return params{}, err
		}
		if string(m.Value) != "null" {
			values.Set(m.Key, text)
			narrowed = narrowed || text != "false" && !slices.Contains([]string{"limit", "cursor", "tree"}, m.Key)
		}
	}
	if !narrowed {
		return params{}, fault.New(fault.Invalid, "", "Give at least one filter, or expect with the number of runs")
	}
	return params{values: values}, nil
}

// plainText returns a member's value as a query would have it.
func plainText(m strictjson.Member) (string, error) {
	value := bytes.TrimSpace(m.Value)
	switch value[0] {
	case '{', '[':
		return "", fault.Newf(fault.Invalid, "%s must be a string, a number, true or false", m.Key).With("field", m.Key)
	case '"':
	default:
		return string(value), nil
	}
	var text string
	if err := json.Unmarshal(value, &text); err != nil || text == "" && m.Key != "cursor" {
		return "", fault.Newf(fault.Invalid, "%s is empty: give a value, or leave it out", m.Key).With("field", m.Key)
	}
	return text, nil
}
