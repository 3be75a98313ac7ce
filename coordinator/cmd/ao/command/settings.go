package command

import (
	"context"
	"encoding/json"

	"ao/coordinator/cmd/ao/screen"
	"ao/shared/config"

	"github.com/spf13/cobra"
)

func settingsCommand(a *app) *cobra.Command {
	var changed bool
	c := &cobra.Command{
		Use: "settings", Short: "List the coordinator's settings and their sources", Args: noArguments,
		Long: `List the coordinator's settings with their values and sources: flag, environment or default. Of
secrets only whether they are set. It needs a token with scope admin.`,
	}
	c.Flags().BoolVar(&changed, "changed", false, "only settings that are not defaults")
	c.RunE = a.withClient(func(ctx context.Context, _ []string) error {
		p, err := a.once.List(ctx, "settings", nil, "settings")
		if err != nil {
			return err
		}
		var shown []json.RawMessage
		for _, doc := range p.Items {
			var s config.EffectiveSetting
			if err := json.Unmarshal(doc, &s); err != nil {
				return err
			}
			if !changed || s.Source != config.FromDefault {
				shown = append(shown, doc)
			}
		}
		p.Items = shown
		table := screen.NewTable("SETTING", "VALUE", "SOURCE", "MEANING")
		return printList(a, p, "no settings", table, func(s config.EffectiveSetting) {
			table.Row(s.Name, s.Value, s.Source, a.lastCell(s.Help))
		})
	})
	return c
}
