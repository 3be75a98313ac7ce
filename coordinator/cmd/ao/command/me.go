package command

import (
	"context"
	"time"

	"ao/coordinator/cmd/ao/screen"

	"github.com/spf13/cobra"
)

// me is the part of GET /me that is shown.
type me struct {
	Name       string     `json:"name"`
	Kind       string     `json:"kind"`
	Scope      string     `json:"scope"`
	Expires    *time.Time `json:"expires_at"`
	Login      bool       `json:"login"`
	Version    string     `json:"version"`
	Deployment string     `json:"deployment"`
}

func meCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "me", Short: "Show your identity at the coordinator and its expiry", Args: noArguments,
		Long: "Show your identity at the coordinator and its expiry. With --json also the routes that you may use.",
		RunE: a.withClient(func(ctx context.Context, _ []string) error {
			doc, err := a.once.Read(ctx, nil, "me")
			return show(a, doc, err, func(a *app, m me) error {
				var f screen.Facts
				f.Add("name", m.Name)
				if m.Login {
					f.Add("kind", m.Kind)
				} else {
					f.Add("token", "not required")
				}
				f.Add("scope", m.Scope)
				if m.Expires != nil {
					f.Add("expires", m.Expires.Local().Format(time.DateTime))
				}
				f.Add("coordinator", a.client.URL()+" "+m.Version, "deployment", m.Deployment)
				return a.print(f.String())
			})
		}),
	}
}
