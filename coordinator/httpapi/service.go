package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"

	"ao/shared/config"
	"ao/shared/fault"
	"ao/shared/metric"

	"github.com/gin-gonic/gin"
)

// serviceAPI serves the process itself: its routes, health, settings and metrics.
type serviceAPI struct {
	routes    []route
	document  func() []byte // openapi.json
	readiness func() error
	refused   func() []string
	registry  *metric.Registry // nil: nothing is measured
	inForce   []config.EffectiveSetting
}

func (a *serviceAPI) index(*gin.Context, request) (any, error) {
	return index{"Agent Orchestrator", a.routes}, nil
}

type condition struct {
	Status  string   `json:"status"`
	Refused []string `json:"refused,omitempty"` // what is refused now, and why
}

func (a *serviceAPI) health(*gin.Context, request) (any, error) { return condition{Status: "ok"}, nil }

func (a *serviceAPI) ready(*gin.Context, request) (any, error) {
	if err := a.readiness(); err != nil {
		return nil, err
	}
	return condition{"ready", a.refused()}, nil
}

// openAPI answers GET /openapi.json.
func (a *serviceAPI) openAPI(g *gin.Context, _ request) (any, error) {
	return json.RawMessage(a.document()), nil
}

// settings lists the settings of this coordinator.
func (a *serviceAPI) settings(*gin.Context, request) (any, error) {
	return settingList{orEmpty(a.inForce)}, nil
}

// settingList are the settings in force.
type settingList struct {
	Settings []config.EffectiveSetting `json:"settings"`
}

// metrics answers GET /metrics.
func (a *serviceAPI) metrics(g *gin.Context, _ request) (any, error) {
	if a.registry == nil {
		return nil, fault.New(fault.NotFound, "", "This coordinator counts nothing")
	}
	a.registry.Handler().ServeHTTP(&pacedWriter{ResponseWriter: g.Writer}, g.Request)
	return written{}, nil
}

// Starting answers requests before there is an API: it refuses all but GET /health and the dashboard's files.
func Starting(w http.ResponseWriter, r *http.Request, why *fault.Fault) {
	if isUI(r.URL.Path) && (r.Method == http.MethodGet || r.Method == http.MethodHead) && serveUI(w, r) {
		return // the page shows why, and waits
	}
	h := w.Header()
	h["Content-Type"], h["Cache-Control"], h["X-Content-Type-Options"] = jsonType, noStore, noSniff
	h["Content-Security-Policy"] = apiPolicy
	var b bytes.Buffer
	if r.URL.Path == "/health" {
		_ = encode(&b, condition{Status: "ok"})
	} else {
		h.Set("Retry-After", "1")
		w.WriteHeader(why.Kind.Status())
		_ = encode(&b, why)
	}
	_ = send(w, b.Bytes())
}
