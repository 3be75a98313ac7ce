package command

import (
	"errors"

	"github.com/spf13/cobra"
)

const aboutUp = `Start NATS with JetStream, a coordinator and a worker with example agents, in one process.

Data and the example agents are kept in .ao of the current folder, or in AO_DATA_DIR. Your own agents go beside
the examples ('ao agents new'); the examples themselves are written anew at each start. 'ao up --help' lists the
settings.`

func upCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "up", Short: "Start NATS, a coordinator and a worker in this process", Long: aboutUp,
		DisableFlagParsing: a.up != nil, // its settings are the coordinator's and the worker's
		RunE: func(_ *cobra.Command, args []string) error {
			a.parsed = true
			if a.up == nil {
				return errors.New("this build of ao contains no servers; use the ao of a release, or scripts/up in " +
					"a checkout")
			}
			a.up(args)
			return nil
		},
	}
}
