package mcpapi

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"ao/coordinator/access"
	"ao/coordinator/audit"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// API answers the MCP requests of one coordinator.
type API struct {
	cfg     Config
	log     *slog.Logger
	handler http.Handler
	waits   sync.Map // MCP session and id of a call in progress → its context.CancelFunc
}

// exchange is the request that calls a tool. The SDK passes the request's context values on, but not its end.
type exchange struct {
	who           access.Caller
	ctx           context.Context // ends when the client disconnects or cancels its call
	w             *keepAliveWriter
	headerSession string          // X-Agent-Session-Id, the session of the calling agent
	progressToken json.RawMessage // as it came; nil: the SDK's

	stored func()
	waited atomic.Int64 // for a run, nanoseconds

	from, id string // the client's address and the request's id
}

type exchangeKey struct{}

// keepAliveWriter writes the answer, and comments of an event stream while a tool waits. Readers skip comments.
type keepAliveWriter struct {
	http.ResponseWriter
	ids   substitutes
	mu    sync.Mutex
	begin sync.Once
	done  chan struct{} // nil: not started
	wg    sync.WaitGroup
}

// start starts the comments. A tool calls it, so the answer's headers are set.
func (l *keepAliveWriter) start(every time.Duration) {
	l.begin.Do(func() {
		l.done = make(chan struct{})
		l.wg.Go(func() {
			tick := time.NewTicker(every)
			defer tick.Stop()
			for {
				select {
				case <-l.done:
					return
				case <-tick.C:
				}
				if _, err := l.Write([]byte(": alive\n\n")); err != nil {
					return
				}
				l.Flush()
			}
		})
	})
}

// call is a call of a tool.
type call struct {
	*exchange
	notify context.Context // for notifications that belong to this call
	req    *mcp.CallToolRequest
	args   json.RawMessage

	targets  audit.Targets
	recorded bool
}

// Config has what the API needs. The first fields are required.
type Config struct {
	Runs     Runs
	Sessions Sessions
	Agents   Agents
	Schemas  Schemas
	History  History

	Waiting   context.Context // ends all waits for runs, but no run; default: nothing does
	KeepAlive time.Duration   // default 15 s: interval of comments while a call waits
	Audit     *audit.Log      // nil: nothing is recorded
	Log       *slog.Logger    // default slog.Default()

	// ReserveStream is asked before a run's events are followed; an error: they are not. Default: always allowed.
	ReserveStream func(context.Context, access.Caller) (leave func(), err error)
}

// Flush sends what was written.
func (l *keepAliveWriter) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = http.NewResponseController(l.ResponseWriter).Flush() // a client that disconnected is noticed at the next write
}

func (l *keepAliveWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.ResponseWriter.Write(l.ids.restore(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// close ends the comments.
func (l *keepAliveWriter) close() {
	if l.done != nil {
		close(l.done)
		l.wg.Wait()
	}
}

// failure is a document about something that failed. The model sees it as an error.
type failure struct{ doc any }

// tool describes a tool: what clients see, who may call it, and what it does.
type tool struct {
	name, title, description string
	inputSchema              string // JSON Schema of the arguments; they are checked where they are read
	scope                    access.Scope
	forSessions              bool   // session tokens may call it for their own sessions
	readOnly                 bool   // changes nothing
	destructive              bool   // ends something that may still be wanted
	action                   string // for the audit log; empty: it changes nothing
	do                       func(*API, *call) (any, error)
}
