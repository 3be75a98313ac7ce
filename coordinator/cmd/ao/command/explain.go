package command

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ao/coordinator/cmd/ao/screen"

	"github.com/spf13/cobra"
)

// explanation is the part of GET /runs/{id}/explain that is shown.
type explanation struct {
	RunID       string `json:"run_id"`
	SessionID   string `json:"session_id"`
	Agent       string `json:"agent_name"`
	Status      string `json:"status"`
	Attempt     int    `json:"attempt"`
	MaxAttempts int    `json:"max_attempts"`
	Summary     string `json:"summary"`
	WaitsFor    *struct {
		Reason  string      `json:"reason"`
		Runners []candidate `json:"runners"`
		More    int         `json:"more_runners"`
	} `json:"waits_for"`
	Story []struct {
		At      time.Time `json:"at"`
		Attempt int       `json:"attempt"`
		What    string    `json:"what"`
		Detail  string    `json:"detail"`
	} `json:"story"`
	Incomplete string `json:"incomplete"`
}

// candidate is a runner that could take a waiting run.
type candidate struct {
	ID         string `json:"runner_id"`
	Hostname   string `json:"hostname"`
	Profile    string `json:"executor_profile"`
	Status     string `json:"status"`
	Slots      int    `json:"max_concurrent_runs"`
	Running    int    `json:"running"`
	Mismatches []struct {
		Field  string          `json:"field"`
		Wanted json.RawMessage `json:"wanted"`
		Has    json.RawMessage `json:"has"`
	} `json:"mismatches"`
	Holds []struct {
		RunID string    `json:"run_id"`
		Agent string    `json:"agent_name"`
		Since time.Time `json:"since"`
	} `json:"holds"`
}

func explainCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "explain RUN", Short: "Explain why a run is waiting, or why it ended as it did", Args: oneRun,
		ValidArgsFunction: completer{a}.runs,
		Long: `Explain why a run is waiting (runners that do not match, runs that hold the slots, runs before it) or why
it ended as it did, with a history.

Exit codes: 0 explained, whatever the run's status; 1 no such run, or the coordinator refused.`,
		RunE: a.withClient(func(ctx context.Context, args []string) error {
			doc, err := a.once.Read(ctx, nil, "runs", args[0], "explain")
			return show(a, doc, err, showExplanation)
		}),
	}
}

func showExplanation(a *app, e explanation) error {
	var f screen.Facts
	status := e.Status
	if e.MaxAttempts > 1 {
		status += fmt.Sprintf(", attempt %d of %d", e.Attempt, e.MaxAttempts)
	}
	f.Add("run", e.RunID, "agent", e.Agent, "session", e.SessionID, "status", status)
	if e.WaitsFor != nil {
		f.Add("waits for", e.WaitsFor.Reason)
	}
	a.print(f.String(), "\n", screen.Line(e.Summary), "\n")
	if e.WaitsFor != nil && len(e.WaitsFor.Runners) > 0 {
		showCandidates(a, e.WaitsFor.Runners, e.WaitsFor.More)
	}
	table := screen.NewTable("WHEN", "AFTER", "ATTEMPT", "WHAT", "DETAIL")
	for _, s := range e.Story {
		attempt := ""
		if s.Attempt > 0 && e.MaxAttempts > 1 {
			attempt = strconv.Itoa(s.Attempt)
		}
		table.Row(screen.Age(a.now(), s.At), "+"+screen.Duration(s.At.Sub(e.Story[0].At)), attempt, s.What,
			a.lastCell(s.Detail))
	}
	a.print("\n", table.String())
	if e.Incomplete != "" {
		a.note("incomplete: %s", e.Incomplete)
	}
	return nil
}

// showCandidates shows why runners do not take a run: mismatches, or the runs that hold their slots.
func showCandidates(a *app, all []candidate, more int) {
	table := screen.NewTable("RUNNER", "STATUS", "HOST", "PROFILE", "SLOTS", "WHY NOT")
	for _, r := range all {
		var why []string
		for _, m := range r.Mismatches {
			why = append(why, fmt.Sprintf("%s is %s, wanted %s", m.Field, plainList(m.Has), plainList(m.Wanted)))
		}
		for i, h := range r.Holds {
			if i == maxHeld {
				why = append(why, fmt.Sprintf("and %d more", r.Running-i))
				break
			}
			why = append(why, fmt.Sprintf("%s (%s, %s)", h.RunID, h.Agent, screen.Duration(a.now().Sub(h.Since))))
		}
		table.Row(r.ID, r.Status, screen.Truncate(r.Hostname, 30), r.Profile, fmt.Sprintf("%d/%d", r.Running, r.Slots),
			a.lastCell(strings.Join(why, "; ")))
	}
	a.print("\n", table.String())
	if more > 0 {
		a.note("and %d more runners; 'ao runners' lists them", more)
	}
}

// maxHeld limits the runs shown per runner.
const maxHeld = 3

// plainList formats a string or a list of strings; empty is "none".
func plainList(raw json.RawMessage) string {
	var all []string
	if json.Unmarshal(raw, &all) != nil {
		if s := plainValue(raw); s != "" {
			return s
		}
		return "none"
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ",")
}
