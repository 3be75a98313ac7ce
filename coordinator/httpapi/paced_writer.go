package httpapi

import (
	"net/http"
	"strings"

	"ao/shared/fault"
)

// pacedWriter is a writer for foreign handlers. It cuts off slow readers, and keeps a plain-text refusal so that it can
// be answered like others.
type pacedWriter struct {
	http.ResponseWriter
	refusal int // its status; 0: none
	text    []byte
}

// WriteHeader keeps the status of a plain-text refusal.
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

// fault returns the refusal. A status without its own kind is Invalid.
func (p *pacedWriter) fault() *fault.Fault {
	kind := fault.Invalid
	for k := range fault.Unavailable + 1 {
		if k.Status() == p.refusal {
			kind = k
		}
	}
	return fault.New(kind, "", strings.TrimSpace(string(p.text)))
}

// Unwrap lets http.ResponseController flush the writer.
func (p *pacedWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }
