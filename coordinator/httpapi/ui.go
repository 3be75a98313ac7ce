package httpapi

import (
	"crypto/rand"
	"net/http"
	"strconv"
	"strings"

	"ao/coordinator/dashboard"
	"ao/shared/fault"

	"github.com/gin-gonic/gin"
)

// The routes of the dashboard's files. They are no part of the API: whoever reaches the address may have them.
const (
	uiRoute = dashboard.Root + "*path"
	uiBare  = "/ui"
)

// What browsers are told, so that nothing of an answer is run or shown where it should not be.
var (
	apiPolicy = []string{"default-src 'none'; sandbox; frame-ancestors 'none'"}
	immutable = []string{"public, max-age=31536000, immutable"}
)

// shellPolicy is the policy of the page, in two parts: between them is the nonce for its style elements.
const (
	shellPolicy = "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self' data:; " +
		"style-src 'self' 'nonce-"
	shellRest = "'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; " +
		"trusted-types 'none'"
)

// pages answers with the dashboard.
func (a *answers) pages(g *gin.Context) {
	if !serveUI(g.Writer, g.Request) {
		a.refuse(g, fault.New(fault.NotFound, "",
			"The dashboard has no such file; its version has changed, so reload the page"))
	}
}

// serveUI answers with a file of the dashboard, or with its page; false: there is no such file.
func serveUI(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	f, found := dashboard.Asset(r.URL.Path)
	if !found && dashboard.IsAsset(r.URL.Path) {
		return false
	}
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h["X-Content-Type-Options"] = noSniff
	switch {
	case r.URL.Path == uiBare:
		h.Set("Location", dashboard.Root)
		w.WriteHeader(http.StatusPermanentRedirect)
	case found:
		sendFile(w, r, f)
	default:
		nonce := rand.Text()
		h["Content-Security-Policy"] = []string{shellPolicy + nonce + shellRest}
		h["Cache-Control"] = noStore
		h.Set("Content-Type", "text/html; charset=utf-8")
		_ = send(w, dashboard.Shell(nonce)) // a reader that is gone misses nothing
	}
	return true
}

// sendFile answers with an asset, compressed where the browser takes that.
func sendFile(w http.ResponseWriter, r *http.Request, f dashboard.File) {
	h := w.Header()
	h["Content-Security-Policy"], h["Cache-Control"] = apiPolicy, immutable
	h.Set("ETag", f.ETag)
	h.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("If-None-Match"), f.ETag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.Body
	if packed := f.Gzip(); packed != nil && takesGzip(r) {
		body = packed
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Type", f.Type)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	_ = send(w, body)
}

// takesGzip reads Accept-Encoding as browsers send it.
func takesGzip(r *http.Request) bool {
	for _, part := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.TrimSpace(name) == "gzip" && !strings.HasPrefix(strings.ReplaceAll(weight, " ", ""), "q=0") {
			return true
		}
	}
	return false
}

// toDashboard says that a request for / is a browser's that wants to show a page: it names text/html, and JSON only
// after it.
func toDashboard(r *http.Request) bool {
	if r.URL.Path != "/" || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	for _, accept := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(accept, ",") {
			switch kind, _, _ := strings.Cut(part, ";"); strings.ToLower(strings.TrimSpace(kind)) {
			case "text/html":
				return true
			case "application/json":
				return false
			}
		}
	}
	return false
}

// opensPage says that a request is a browser's that opens the dashboard as a page of its own, from a link of whatever
// other page. What it gets is the same for everybody, and shown in no frame.
func opensPage(r *http.Request) bool {
	return (toDashboard(r) || r.Method == http.MethodGet && isUI(r.URL.Path)) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// isUI says that a path is the dashboard's.
func isUI(path string) bool { return path == uiBare || strings.HasPrefix(path, dashboard.Root) }
