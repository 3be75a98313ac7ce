package command

import (
	"cmp"
	"context"
	"os"
	"slices"

	"ao/coordinator/cmd/ao/doctor"
	"ao/coordinator/cmd/ao/screen"
	"ao/coordinator/health"

	"github.com/spf13/cobra"
)

const aboutDoctor = `Check a deployment and give advice: versions, how NATS syncs to disk, replicas, full
streams, permissions of NATS credentials, clocks, disk space, access without a token, secrets that other users
can read, agents and profiles that do not load, runners without heartbeats, runs that no runner takes,
callbacks pending for long, the public address.

The coordinator's own checks need a token with scope admin (AO_TOKEN). On the machine of a coordinator or
worker, set the same environment as the program: AO_NATS_URL, AO_NATS_CREDS, AO_API_TOKENS, AO_TLS_KEY,
AO_DATA_DIR, AO_PROFILES_DIR, AO_PROFILES. Checks that are not possible from here are listed as "skip".

Exit codes: 0 no check failed (there may be warnings), 1 a check failed or none was possible, 2 usage error,
130 interrupted.`

func doctorCommand(a *app) *cobra.Command {
	var monitor string
	c := &cobra.Command{Use: "doctor", Short: "Check the deployment and give advice", Long: aboutDoctor,
		Args: noArguments}
	c.Flags().StringVar(&monitor, "nats-monitor", "",
		"monitoring port of a NATS server, such as http://127.0.0.1:8222, to check how it syncs to disk")
	c.RunE = a.withClient(func(ctx context.Context, _ []string) error {
		found := doctor.Check(ctx, doctor.Config{
			URL: cmp.Or(a.url, os.Getenv("AO_URL")), Token: cmp.Or(a.token, os.Getenv("AO_TOKEN")),
			CA:  cmp.Or(a.ca, os.Getenv("AO_CA")),
			Env: os.Getenv, Monitor: monitor,
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		seen := slices.ContainsFunc(found, func(f health.Result) bool {
			return f.Verdict != health.Skip && f.Check != "ao"
		})
		well := seen && !slices.ContainsFunc(found, func(f health.Result) bool { return f.Verdict == health.Fail })
		if err := showResults(a, found, well); err != nil {
			return err
		}
		if !seen {
			a.note("no check was possible; set a token with scope admin, or the environment of a coordinator or worker")
		}
		if !well {
			return exitCode(exitFailed)
		}
		return nil
	})
	return c
}

// showResults prints the results in the order of the checks.
func showResults(a *app, found []health.Result, ok bool) error {
	if a.json {
		return a.printJSON(struct {
			OK     bool            `json:"ok"`
			Checks []health.Result `json:"checks"`
		}{ok, found})
	}
	counts := map[health.Verdict]int{}
	for _, f := range found {
		counts[f.Verdict]++
		f.Message, f.Advice = screen.Line(f.Message), screen.Line(f.Advice)
		a.print(doctor.Format(f) + "\n")
	}
	a.note("%d ok, %d warnings, %d failed, %d skipped", counts[health.OK], counts[health.Warn], counts[health.Fail],
		counts[health.Skip])
	return nil
}
