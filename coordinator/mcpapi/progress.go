package mcpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"ao/coordinator/budget"
	"ao/coordinator/projection/query"
	"ao/shared/run"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// progress reports to a client that asked for progress, until ctx ends; stop waits for that. It names run and session
// at once, so that the run can be found if the call is abandoned. It reports at every interval, since clients take
// silence for a hang. It follows the run's events where a stream can be reserved. Values always rise.
func (a *API) progress(ctx context.Context, x *call, session, id string) (stop func()) {
	token := x.req.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	if x.progressToken != nil {
		token = x.progressToken
	}
	ctx, cancel := context.WithCancel(ctx)
	var mu sync.Mutex // two goroutines report, and values must rise
	n := 0
	send := func(text string) error {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil || text == "" {
			return ctx.Err()
		}
		n++
		return x.req.Session.NotifyProgress(x.notify, &mcp.ProgressNotificationParams{ProgressToken: token,
			Progress: float64(n), Message: text})
	}
	_ = send(fmt.Sprintf("waiting for run %s of session %s", id, session)) // if this fails, so will the rest
	var wg sync.WaitGroup
	wg.Go(func() {
		sent := time.Duration(0)
		began, tick := time.Now(), time.NewTicker(a.cfg.KeepAlive)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			now := time.Since(began).Round(time.Second)
			if now == sent {
				continue
			}
			sent = now
			if send(fmt.Sprintf("run %s continues, for %v now", id, now)) != nil {
				return
			}
		}
	})
	if leave, err := a.cfg.ReserveStream(ctx, x.who); err == nil {
		wg.Go(func() {
			defer leave()
			if err := a.follow(ctx, session, id, send); err != nil && ctx.Err() == nil {
				a.log.Debug("progress not sent", "run", id, "err", err)
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}

// follow reports the events and states of a run as lines.
func (a *API) follow(ctx context.Context, session, id string, send func(string) error) error {
	if _, err := a.cfg.History.Get(ctx, id); err != nil { // known from here on
		return err
	}
	active, ok := a.cfg.History.Active(id)
	if !ok { // it has ended
		return nil
	}
	last := "" // a run is also reported where only its times changed
	return a.cfg.History.Stream(ctx, session, query.PositionBefore(active.FirstSeq),
		func(i query.Item) error {
			defer budget.Sent(ctx)
			switch v := i.Data.(type) {
			case run.Event:
				if v.RunID == id {
					return send(eventLine(v))
				}
			case run.Run:
				if stands := statusLine(v); v.ID == id && stands != last {
					last = stands
					return send(stands)
				}
			}
			return nil
		})
}

// statusLine returns the state of a run as a line.
func statusLine(r run.Run) string {
	if r.WaitingFor != "" {
		return string(r.Status) + ": waiting for " + r.WaitingFor
	}
	return string(r.Status)
}

// eventLine returns an event as a line; empty: it is not reported.
func eventLine(e run.Event) string {
	switch e.Type {
	case run.EventMessage:
		var m run.Message
		if json.Unmarshal(e.Body, &m) != nil {
			return ""
		}
		var text []string
		for _, t := range m.Content {
			text = append(text, t.Text)
		}
		return shorten(m.Role + ": " + strings.Join(text, " "))
	case run.EventPreTool, run.EventPostTool:
		var t struct {
			Name string `json:"tool_name"`
		}
		if json.Unmarshal(e.Body, &t) != nil || t.Name == "" {
			return ""
		}
		if e.Type == run.EventPreTool {
			return shorten("uses " + t.Name)
		}
		return shorten("used " + t.Name)
	}
	return ""
}

// shorten returns the text as one short line.
func shorten(s string) string {
	const most = 200
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
