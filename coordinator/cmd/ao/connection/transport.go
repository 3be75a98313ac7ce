package connection

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"os"

	client "ao/shared/clients/go"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/tlsroots"
	"ao/shared/trace"
)

// transport sends requests in the trace of the calling script, and says in plain words why there is no answer.
type transport struct{ http.RoundTripper }

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	trace.Inject(trace.ContextWith(req.Context(), &run.Trace{Parent: os.Getenv("TRACEPARENT"),
		State: os.Getenv("TRACESTATE")}), req.Header)
	res, err := t.RoundTripper.RoundTrip(req)
	if err != nil {
		if why := tlsroots.Explain(err); why != "" {
			err = &client.UnreachableError{Reason: client.Untrusted, Err: errors.New(why)}
		}
		return nil, plainError{err}
	}
	from := bufio.NewReader(res.Body)
	res.Body = body{from, res.Body}
	if res.StatusCode == http.StatusBadRequest && res.TLS == nil {
		if start, _ := from.Peek(len(wantsTLS)); string(start) == wantsTLS {
			_ = res.Body.Close()
			return nil, &client.UnreachableError{Reason: client.Foreign, Err: errors.New("uses TLS: write https:// " +
				"(and set AO_CA if its certificate is from your own authority)")}
		}
	}
	return res, nil
}

// wantsTLS is how Go's servers begin the answer to a request that should have used TLS.
const wantsTLS = "Client sent an HTTP request to an HTTPS server"

// body is the body of an answer.
type body struct {
	io.Reader
	io.Closer
}

func (b body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = plainError{err}
	}
	return n, err
}

// plainError is an error in plain words.
type plainError struct{ error }

func (p plainError) Error() string { return fault.Describe(p.error) }
func (p plainError) Unwrap() error { return p.error }
