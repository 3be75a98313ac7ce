package httpapi

import (
	"net/http"
	"strings"

	"ao/shared/fault"
)

// pacedWriter is a writer that somebody else writes to: a reader that is too slow is cut off all the same, and a
// refusal in plain text is kept, to be answered as every other one.
type pacedWriter struct {
	http.ResponseWriter
	refusal int // its status; 0: there is none
	text    []byte
}

// WriteHeader keeps a refusal in plain text to itself.
func (p *pacedWriter) WriteHeader(status int) {
	if status >= 400 && strings.HasPrefix(p.Header().Get("Content-Type"), "text/plain") {
		p.refusal = status
		return
	}
	p.ResponseWriter.WriteHeader(status)
}

func (p *pacedWriter) Write(b []byte) (int, error) {
	if p.refusal != 0 {
		p.text = append(p.text, b...)
		return len(b), nil
	}
	return len(b), send(p.ResponseWriter, b)
}

// fault is the refusal that was kept. What has no kind of its own is Invalid: the caller is to mend the request.
func (p *pacedWriter) fault() *fault.Fault {
	kind := fault.Invalid
	for k, code := range status {
		if code == p.refusal {
			kind = k
		}
	}
	return fault.New(kind, "", strings.TrimSpace(string(p.text)))
}

// Unwrap lets the writer be flushed.
func (p *pacedWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }
