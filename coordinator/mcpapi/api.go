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

// API answers MCP requests for one coordinator.
type API struct {
	cfg     Config
	log     *slog.Logger
	handler http.Handler
	waits   sync.Map // MCP session and id of a call that is under way → its context.CancelFunc
}

// exchange is what a tool knows of the request that it is called by. The SDK hands the request's values on, not its
// end.
type exchange struct {
	who           access.Caller
	ctx           context.Context // ends when the client goes, or cancels its call
	w             *keepAliveWriter
	headerSession string // X-Agent-Session-Id

	stored func()
	waited atomic.Int64 // for a run, nanoseconds

	from, id string // the other end's address, and the request's id
}

type exchangeKey struct{}

// keepAliveWriter is the way to the client, with signs of life while nothing else is said: comments, which every reader of event
// streams skips.
type keepAliveWriter struct {
	http.ResponseWriter
	mu    sync.Mutex
	begin sync.Once
	done  chan struct{} // nil: there were none
	wg    sync.WaitGroup
}

// start begins the signs of life; a tool calls it, so that the answer's headers are set.
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

// parentHeader names the session in which the calling agent works. The worker sets it for its executors.
const parentHeader = "X-Agent-Session-Id"

// call is one call of a tool.
type call struct {
	*exchange
	notify context.Context // for notifications that belong to this call
	req    *mcp.CallToolRequest
	args   json.RawMessage

	targets  audit.Targets
	recorded bool
}

// Config is whom the side asks, all required, and how it behaves: zero works.
type Config struct {
	Runs     Runs
	Sessions Sessions
	Agents   Agents
	Schemas  Schemas
	History  History

	Waiting   context.Context // its end ends every wait for a run, never a run; default: nothing does
	KeepAlive time.Duration   // default 15 s: rhythm of signs of life while a call waits
	Audit     *audit.Log      // who changed what; nil: it is not recorded
	Log       *slog.Logger    // default slog.Default()

	// ReserveStream is asked before a run's events are followed for a caller; an error: they are not. Default: nobody is asked.
	ReserveStream func(access.Caller) (leave func(), err error)
}

// Flush sends what was written.
func (l *keepAliveWriter) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = http.NewResponseController(l.ResponseWriter).Flush() // a reader that is gone is seen at the next piece
}

func (l *keepAliveWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ResponseWriter.Write(b)
}

// close ends them.
func (l *keepAliveWriter) close() {
	if l.done != nil {
		close(l.done)
		l.wg.Wait()
	}
}

// failure is a document about something that did not succeed: the model is to see it as an error.
type failure struct{ doc any }

// tool is one row of the table: what a client sees of it, who may call it, and what it does.
type tool struct {
	name, title, description string
	inputSchema              string // JSON Schema of its arguments; they are checked where they are read
	scope                    access.Scope
	forSessions              bool   // session tokens may call it, for what is theirs
	readOnly                 bool   // changes nothing
	destructive              bool   // ends what somebody may still want
	action                   string // in the audit log, where it changes something
	do                       func(*API, *call) (any, error)
}
