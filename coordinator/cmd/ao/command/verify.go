package command

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ao/coordinator/cmd/ao/client"
	"ao/coordinator/cmd/ao/screen"

	"github.com/spf13/cobra"
)

// verification is what of GET /ledger a person reads.
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
	OK        *bool          `json:"ok"`
	Count     int            `json:"wrong_count"`
	Wrong     []struct {
		Kind     string `json:"kind"`
		RunID    string `json:"run_id"`
		Sequence uint64 `json:"sequence"`
		Message  string `json:"message"`
	} `json:"wrong"`
}

// verifyTimeout is how long an audit may take: the history may have millions of records, and another audit be first.
const verifyTimeout = 10 * time.Minute

const aboutVerify = `Read every record of the stream, without the coordinator's own view of them, and count anew: every accepted run waits,
runs or has ended; no attempt was begun twice or has two last words; a session did one thing at a time, in order; every
callback owed came once, or is yet to come.

Exit codes: 0 all of that is so, 1 something is wrong, and is printed, or the coordinator refused, 2 the words were not
understood, 5 no coordinator was reached, 130 interrupted.`

func verifyCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "verify", Short: "Prove from the stream that nothing was lost and nothing done twice", Long: aboutVerify, Args: cobra.NoArgs}
	c.RunE = a.withClient(func(ctx context.Context, _ []string) error {
		answer, err := a.client.Do(ctx, client.Call{Path: []string{"ledger"}, Wait: verifyTimeout})
		if err != nil {
			return err
		}
		var r verification
		if err := json.Unmarshal(answer.Doc, &r); err != nil || r.OK == nil {
			return fmt.Errorf("the audit cannot be read: %.200s", answer.Doc)
		}
		if a.json {
			err = a.printDoc(answer.Doc)
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
	f.Add("attempts", fmt.Sprintf("%d begun, %d ended, %d retried", r.Attempts["begun"], r.Attempts["ended"], r.Attempts["retried"]))
	f.Add("callbacks", fmt.Sprintf("%d owed = %s", r.Callbacks["owed"], parts(r.Callbacks, "delivered", "waiting", "undeliverable", "suppressed")))
	f.Add("webhooks", fmt.Sprintf("%d owed = %s", r.Webhooks["owed"], parts(r.Webhooks, "delivered", "waiting", "dead")))
	f.Add("sessions", strconv.Itoa(r.Sessions))
	f.Add("read", fmt.Sprintf("%d records, from %d to %d", r.Records, r.Before, r.Sequence))
	if r.Foreign > 0 && len(r.Strays) > 0 {
		f.Add("foreign", fmt.Sprintf("%d of these stand under no attempt's key and count for nothing; the first is record %d", r.Foreign, r.Strays[0]))
	}
	if err := f.Write(a.out); err != nil {
		return err
	}
	if *r.OK {
		return a.print("\nok: nothing was lost, and nothing done twice\n")
	}
	if err := a.print("\n"); err != nil {
		return err
	}
	table := screen.NewTable("WRONG", "RUN", "RECORD", "WHAT")
	for _, w := range r.Wrong {
		at := ""
		if w.Sequence > 0 {
			at = strconv.FormatUint(w.Sequence, 10)
		}
		table.Row(w.Kind, w.RunID, at, a.lastCell(w.Message))
	}
	if err := table.Write(a.out); err != nil {
		return err
	}
	things := "1 thing is"
	if r.Count != 1 {
		things = fmt.Sprintf("%d things are", r.Count)
	}
	a.note("ao: %s wrong. Keep the evidence: save 'ao verify --json' and copy the NATS data folder before anything is deleted or truncated; 'ao show RUN' tells how a run looks from outside. Then report it.", things)
	return nil
}
