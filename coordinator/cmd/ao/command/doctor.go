package command

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"slices"

	"ao/coordinator/checkup"
	"ao/coordinator/cmd/ao/doctor"
	"ao/coordinator/cmd/ao/screen"

	"github.com/spf13/cobra"
)

const aboutDoctor = `Look over a deployment and say what to do: versions, when NATS writes to disk, replicas, full streams, rights of NATS credentials,
clocks, disk space, who gets in without a token, secrets that every user can read, agents and profiles that do not load, silent
runners, runs that nobody takes, callbacks owed for long, whether the public address is reached.

What the coordinator sees it tells to a token with scope admin (AO_TOKEN). On its machine, or a worker's, give the same environment as
the program has: AO_NATS_URL, AO_NATS_CREDS, AO_API_TOKENS, AO_TLS_KEY, AO_DATA_DIR, AO_PROFILES_DIR, AO_PROFILES. What cannot be looked at from here is said (skip).

Exit codes: 0 nothing failed (warnings may be there), 1 something must be mended, or nothing could be looked at, 2 the words were not understood, 130 interrupted.`

func doctorCommand(a *app) *cobra.Command {
	var monitor string
	c := &cobra.Command{Use: "doctor", Short: "Look over the deployment and say what to mend", Long: aboutDoctor, Args: cobra.NoArgs}
	c.Flags().StringVar(&monitor, "nats-monitor", "", "a NATS server's monitoring port, such as http://127.0.0.1:8222: it says when it writes to disk")
	completeFlag(c, "nats-monitor", cobra.NoFileCompletions)
	c.RunE = a.withClient(func(ctx context.Context, _ []string) error {
		found := doctor.Check(ctx, doctor.Config{
			URL: cmp.Or(a.url, os.Getenv("AO_URL")), Token: cmp.Or(a.token, os.Getenv("AO_TOKEN")), CA: cmp.Or(a.ca, os.Getenv("AO_CA")),
			Env: os.Getenv, Monitor: monitor,
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		seen := slices.ContainsFunc(found, func(f checkup.Finding) bool { return f.Verdict != checkup.Skip && f.Check != "ao" })
		well := seen && !slices.ContainsFunc(found, func(f checkup.Finding) bool { return f.Verdict == checkup.Fail })
		if err := showFindings(a, found, well); err != nil {
			return err
		}
		if !seen {
			a.note("nothing could be looked at; give a token with scope admin, or the environment of a coordinator or worker")
		}
		if !well {
			return exitCode(exitFailed)
		}
		return nil
	})
	return c
}

// showFindings shows them: the order is that of the looking.
func showFindings(a *app, found []checkup.Finding, ok bool) error {
	if a.json {
		doc, err := json.Marshal(struct {
			OK     bool              `json:"ok"`
			Checks []checkup.Finding `json:"checks"`
		}{ok, found})
		if err != nil {
			return err
		}
		return a.printDoc(doc)
	}
	counts := map[checkup.Verdict]int{}
	for _, f := range found {
		counts[f.Verdict]++
		f.Say, f.Advice = screen.Line(f.Say), screen.Line(f.Advice)
		if err := a.print(doctor.Format(f) + "\n"); err != nil {
			return err
		}
	}
	a.note("%d ok, %d to look at, %d to mend, %d not looked at", counts[checkup.OK], counts[checkup.Warn], counts[checkup.Fail], counts[checkup.Skip])
	return nil
}
