package command

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ao/coordinator/cmd/ao/screen"
	client "ao/shared/clients/go"

	"github.com/spf13/cobra"
)

// verification is the part of GET /ledger that is shown.
type verification struct {
	Sequence  uint64         `json:"sequence"`
	Before    uint64         `json:"truncated_before"`
	Records   uint64         `json:"records"`
	Foreign   uint64         `json:"foreign_records"`
	Strays    []uint64       `json:"foreign_sequences"`
	Runs      map[string]int `json:"runs"`
	Attempts  map[string]int `json:"attempts"`
	Callbacks map[string]int `json:"callbacks"`
	Webhooks  map[string]int `json:"webhooks"`
	Sessions  int            `json:"sessions"`
	Damages   []damage       `json:"damages"`
	OK        *bool          `json:"ok"`
	Count     int            `json:"wrong_count"`
	Wrong     []struct {
		Kind     string `json:"kind"`
		RunID    string `json:"run_id"`
		Sequence uint64 `json:"sequence"`
		Message  string `json:"message"`
	} `json:"wrong"`
}

// damage is a loss of records.
type damage struct {
	Message    string     `json:"message"`
	FoundAt    time.Time  `json:"found_at"`
	ResolvedAt *time.Time `json:"resolved_at"`
	AcceptedAt *time.Time `json:"accepted_at"`
	Failed     int        `json:"failed"`
	Lost       int        `json:"lost"`
	Runs       []struct {
		ID       string `json:"run_id"`
		Was      string `json:"was"`
		Evidence string `json:"evidence"`
	} `json:"runs"`
}

// verifyTimeout allows for millions of records, and for another verification that runs first.
const verifyTimeout = 10 * time.Minute

const aboutVerify = `Verify the history from the records of the stream, independent of the coordinator's
state: every accepted run is waiting, running or ended; no attempt was claimed twice or has two end records;
each session ran one turn at a time, in order; every callback was delivered once or is pending. It also compares
the history with its high-water mark, and says which records are missing. It does not read the buckets: if NATS
lost a definition of an agent or a schema, it does not say so.

--accept-damage (scope admin) goes on with what is left: what is missing is no longer called wrong.

Exit codes: 0 verified, 1 violations found and printed, or the coordinator refused, 2 usage error,
5 coordinator unreachable, 130 interrupted.`

func verifyCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "verify", Short: "Verify that the log is complete and consistent",
		Long: aboutVerify, Args: noArguments}
	accept := c.Flags().Bool("accept-damage", false, "go on with what is left of a damaged history (scope admin)")
	c.RunE = a.withClient(func(ctx context.Context, _ []string) error {
		if *accept {
			if _, err := a.once.Do(ctx, client.Call{Method: "POST", Path: []string{"ledger", "accept"}}); err != nil {
				return err
			}
		}
		answer, err := a.once.Do(ctx, client.Call{Path: []string{"ledger"}, Wait: verifyTimeout})
		if err != nil {
			return err
		}
		var r verification
		if err := json.Unmarshal(answer.Document, &r); err != nil || r.OK == nil {
			return fmt.Errorf("the answer cannot be read: %.200s", answer.Document)
		}
		if a.json {
			err = a.printDoc(answer.Document)
		} else {
			err = showVerification(a, r)
		}
		if err == nil && !*r.OK {
			return exitCode(exitFailed)
		}
		return err
	})
	return c
}

func showVerification(a *app, r verification) error {
	var f screen.Facts
	parts := func(of map[string]int, names ...string) string {
		var all []string
		for _, n := range names {
			all = append(all, fmt.Sprintf("%d %s", of[n], n))
		}
		return strings.Join(all, " + ")
	}
	f.Add("runs", fmt.Sprintf("%d accepted = %s", r.Runs["accepted"], parts(r.Runs, "waiting", "running", "ended")))
	f.Add("ended", fmt.Sprintf("%d = %s", r.Runs["ended"], parts(r.Runs, "completed", "failed", "stopped")))
	f.Add("attempts", fmt.Sprintf("%d claimed, %d ended, %d retried", r.Attempts["begun"], r.Attempts["ended"],
		r.Attempts["retried"]))
	f.Add("callbacks", fmt.Sprintf("%d due = %s", r.Callbacks["owed"],
		parts(r.Callbacks, "delivered", "waiting", "undeliverable", "suppressed")))
	f.Add("webhooks", fmt.Sprintf("%d due = %s", r.Webhooks["owed"], parts(r.Webhooks, "delivered", "waiting", "dead")))
	f.Add("sessions", strconv.Itoa(r.Sessions))
	f.Add("read", fmt.Sprintf("%d records, from %d to %d", r.Records, r.Before, r.Sequence))
	if r.Foreign > 0 && len(r.Strays) > 0 {
		f.Add("foreign", fmt.Sprintf("%d of these belong to no attempt and are ignored; the first is record %d",
			r.Foreign, r.Strays[0]))
	}
	a.print(f.String())
	showDamages(a, r.Damages)
	if *r.OK {
		return a.print("\nok: the log is complete and consistent\n")
	}
	table := screen.NewTable("VIOLATION", "RUN", "RECORD", "MESSAGE")
	for _, w := range r.Wrong {
		at := ""
		if w.Sequence > 0 {
			at = strconv.FormatUint(w.Sequence, 10)
		}
		table.Row(w.Kind, w.RunID, at, a.lastCell(w.Message))
	}
	a.print("\n", table.String())

	a.note("ao: %s. Keep the evidence: save 'ao verify --json' and 'ao show RUN', and copy the NATS data folder "+
		"before\nanything is deleted or truncated. Then report it.", plural(r.Count, "violation"))
	return nil
}

// showDamages shows what the history has lost, and the runs that it affects.
func showDamages(a *app, all []damage) {
	for _, d := range all {
		state := "not accepted"
		switch {
		case d.AcceptedAt != nil:
			state = "accepted"
		case d.ResolvedAt == nil:
			state = "nothing starts until the affected runs are known"
		}
		a.print(fmt.Sprintf("\ndamage of %s: %s (%s)\n%d runs failed with history_damaged, %d are lost\n",
			d.FoundAt.Local().Format(time.DateTime), d.Message, state, d.Failed, d.Lost))
		table := screen.NewTable("RUN", "WAS", "HOW IT IS KNOWN")
		for _, r := range d.Runs {
			table.Row(r.ID, r.Was, a.lastCell(r.Evidence))
		}
		if len(d.Runs) > 0 {
			a.print(table.String())
		}
	}
}
