package command

import (
	"cmp"
	"context"
	"encoding/json"

	"ao/coordinator/cmd/ao/screen"
	client "ao/shared/clients/go"
	"ao/shared/run"

	"github.com/spf13/cobra"
)

func eventsCommand(a *app) *cobra.Command {
	var follow bool
	c := &cobra.Command{
		Use: "events SESSION|RUN", Short: "Show the events of a session or a run; -f follows",
		Args: exactlyOne("a run or a session"),
		Long: `Show the events of a session or of one run, oldest first. With -f also new ones: of a run until
it ends, of a session until Ctrl-C. Lost connections are resumed without gaps.`,
		Example:           "  ao events -f ses_…\n  ao events run_… --json | jq .event_type",
		ValidArgsFunction: completer{a}.runsOrSessions,
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "follow new events")
	c.RunE = a.withClient(func(ctx context.Context, args []string) error {
		w := eventPrinter{app: a, session: args[0]}
		path, err := apiPath(args[0])
		if err != nil {
			return err
		}
		if path[0] == "runs" {
			r, err := fetch[run.Run](ctx, a, path...)
			if err != nil {
				return err
			}
			w.run, w.session = r.ID, r.SessionID
		}
		return w.watch(ctx, follow)
	})
	return c
}

// eventPrinter prints the events of a session, or of one of its runs.
type eventPrinter struct {
	app     *app
	session string
	run     string // only its events; empty: all
	lastRun string // run of the last event printed
	err     error
}

func (w *eventPrinter) watch(ctx context.Context, follow bool) error {
	if !follow {
		for e, err := range w.app.once.ListEvents(ctx, w.session, "") {
			if err != nil || w.event(e.Document) {
				return cmp.Or(err, w.err)
			}
		}
		return nil
	}
	for m, err := range w.app.client.Follow(ctx, w.session, "") {
		switch {
		case err != nil && ctx.Err() != nil:
			return exitCode(exitInterrupted)
		case err != nil || w.message(m):
			return cmp.Or(err, w.err)
		}
	}
	return nil
}

// event prints an event. It returns true at the end of the watched run, or if printing fails.
func (w *eventPrinter) event(raw json.RawMessage) (enough bool) {
	e, ok := readEvent(raw)
	if !ok || w.run != "" && e.RunID != w.run {
		return false
	}
	w.err = w.print(e, raw)
	return w.err != nil || w.run != "" && endsRun(e)
}

func (w *eventPrinter) print(e run.Event, raw json.RawMessage) error {
	if w.app.json {
		return w.app.printDoc(raw)
	}
	head := ""
	if e.RunID != w.lastRun && w.run == "" {
		head = screen.Line(e.RunID) + "\n"
	}
	w.lastRun = e.RunID
	return w.app.print(head + timestamped(e, describeEvent(e)) + "\n")
}

func (w *eventPrinter) message(m client.Message) (enough bool) {
	switch m.Name {
	case "event":
		return w.event(m.Document)
	case "session_deleted":
		w.app.note("the session was deleted")
		return true
	}
	return false
}
