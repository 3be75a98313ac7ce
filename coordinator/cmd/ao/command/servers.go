package command

import (
	"errors"

	"github.com/spf13/cobra"
)

// Servers are the servers in this build of ao, by the name of their command. Each runs with its arguments and never
// returns.
type Servers map[string]func(args []string)

const aboutUp = `Start NATS with JetStream, a coordinator and a worker with example agents, in one process.

Data and the example agents are kept in .ao of the current folder, or in AO_DATA_DIR. Your own agents go beside
the examples ('ao agents new'); the examples themselves are written anew at each start. 'ao up --help' lists the
settings.`

const aboutWorker = `Start a worker more, beside 'ao up' or scripts/up.

It is a runner of its own: unless --hostname names it, it is called after this machine and its process. Its profiles
are those in worker/profiles of the current folder, or the examples, which it writes into .ao or --data-dir;
--profiles-dir names others. Without -x it runs the profiles procedural and test. 'ao worker --help' lists the
settings.`

// serverCommand is a command that runs a server.
func serverCommand(a *app, name, short, about string) *cobra.Command {
	run := a.servers[name]
	return &cobra.Command{
		Use: name, Short: short, Long: about,
		DisableFlagParsing: run != nil, // its settings are the server's
		RunE: func(_ *cobra.Command, args []string) error {
			a.parsed = true
			if run == nil {
				return errors.New("this build of ao contains no servers; use the ao of a release, or that of " +
					"scripts/up in a checkout")
			}
			run(args)
			return nil
		},
	}
}
