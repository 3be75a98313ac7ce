package ao

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"
	"time"
)

const (
	answerTimeout  = 30 * time.Second // of an answer, without Call.Wait
	maxAnswer      = 256 << 20        // bytes of an answer, or of a line of a stream
	positionHeader = "Ao-Position"    // a position of the history, in requests and answers
)

// Call is any request of the API.
type Call struct {
	Method  string        // default GET
	Path    []string      // its segments, not escaped
	Query   url.Values    // default none
	Body    []byte        // JSON; default none
	Key     string        // idempotency key: the same key is the same request
	AtLeast string        // position of the history that the answer must include
	Wait    time.Duration // how much longer than 30 s the answer may take
}

// Answer is a document of the API.
type Answer struct {
	Status   int
	Document json.RawMessage // empty after 204
	Position string          // of the history behind the answer; empty: it depends on none
	kind     string          // media type
}

// Do sends a request and repeats it during an outage: one that must not be repeated needs a key, or Once.
func (c *Client) Do(ctx context.Context, call Call) (Answer, error) {
	out := outage{c: c}
	for {
		a, err := c.try(ctx, call)
		if err == nil {
			return a, nil
		}
		if err := out.wait(ctx, err); err != nil {
			return a, err
		}
	}
}

// Read is Do for a GET request, such as Read(ctx, nil, "agents", name).
func (c *Client) Read(ctx context.Context, query url.Values, path ...string) (json.RawMessage, error) {
	a, err := c.Do(ctx, Call{Path: path, Query: query})
	return a.Document, err
}

// Page is one page of a list.
type Page struct {
	Items []json.RawMessage
	Next  string // cursor of the next page; empty: this is the last
}

// List reads one page of a list. The answer has it as a member: of is its name, such as runs.
func (c *Client) List(ctx context.Context, of string, query url.Values, path ...string) (Page, error) {
	a, err := c.Do(ctx, Call{Path: path, Query: query})
	if err != nil {
		return Page{}, err
	}
	return c.page(a, of)
}

func (c *Client) page(a Answer, of string) (p Page, err error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(a.Document, &members) != nil || members[of] == nil ||
		json.Unmarshal(members[of], &p.Items) != nil {
		return p, c.foreign(a)
	}
	for _, name := range []string{"next_cursor", "next"} {
		if members[name] != nil && json.Unmarshal(members[name], &p.Next) != nil {
			p.Next = ""
		}
	}
	return p, nil
}

// Copy writes an answer that need not be JSON to w while it arrives, however long that takes. It sends one request: an
// answer that breaks off is an *UnreachableError.
func (c *Client) Copy(ctx context.Context, w io.Writer, query url.Values, path ...string) error {
	res, err := c.send(ctx, Call{Path: path, Query: query}, http.Header{"Accept": {"application/json"}})
	if err != nil {
		return c.unreachable(ctx, err)
	}
	if res.StatusCode != http.StatusOK {
		_, err := c.read(ctx, res)
		return err
	}
	defer res.Body.Close()
	from := &source{Reader: res.Body}
	_, err = io.Copy(w, from)
	if from.err != nil {
		return c.unreachable(ctx, from.err)
	}
	return err
}

// source keeps the error of its reader, to tell it from a writer's.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if err != io.EOF {
		s.err = err
	}
	return n, err
}

// try sends one request.
func (c *Client) try(ctx context.Context, call Call) (Answer, error) {
	limited, cancel := context.WithTimeout(ctx, answerTimeout+call.Wait)
	defer cancel()
	res, err := c.send(limited, call, http.Header{"Accept": {"application/json"}})
	if err != nil {
		return Answer{}, c.unreachable(ctx, err)
	}
	return c.read(ctx, res)
}

// send sends every request of the client.
func (c *Client) send(ctx context.Context, call Call, header http.Header) (*http.Response, error) {
	target := c.conf.URL
	for _, p := range call.Path {
		target += "/" + url.PathEscape(p)
	}
	if len(call.Query) > 0 {
		target += "?" + call.Query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, cmp.Or(call.Method, http.MethodGet), target, bytes.NewReader(call.Body))
	if err != nil {
		return nil, &UnreachableError{Reason: Foreign, Err: err} // the address is none
	}
	req.Header = header
	set := func(name, value, prefix string) {
		if value != "" {
			header.Set(name, prefix+value)
		}
	}
	set("Authorization", c.conf.Token, "Bearer ")
	set("Idempotency-Key", call.Key, "")
	set(positionHeader, call.AtLeast, "")
	if call.Body != nil {
		header.Set("Content-Type", "application/json")
	}
	res, err := c.conf.HTTP.Do(req)
	if err == nil {
		c.reached.Store(true)
	}
	return res, err
}

// read returns the document of an answer, or why it is none.
func (c *Client) read(ctx context.Context, res *http.Response) (Answer, error) {
	defer res.Body.Close()
	doc, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return Answer{}, c.unreachable(ctx, err)
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	a := Answer{res.StatusCode, bytes.TrimSpace(doc), res.Header.Get(positionHeader), kind}
	switch {
	case a.Status/100 != 2:
		return a, c.refusal(a, res.Header.Get("Retry-After"))
	case a.Status == http.StatusNoContent && len(a.Document) == 0, len(doc) <= maxAnswer && json.Valid(a.Document):
		return a, nil
	}
	return a, c.foreign(a)
}
