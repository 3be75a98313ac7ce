package command

import (
	"ao/shared/version"

	"github.com/spf13/cobra"
)

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version, as --version does", Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			a.parsed = true
			return a.print(version.Line("ao"))
		},
	}
}
