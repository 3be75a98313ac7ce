package command

import (
	"context"
	"encoding/json"
	"time"

	"ao/coordinator/cmd/ao/screen"

	"github.com/spf13/cobra"
)

func meCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "me", Short: "Show your identity at the coordinator and its expiry", Args: cobra.NoArgs,
		Long: "Show your identity at the coordinator and its expiry. With --json also the routes that you may use.",
	}
	c.RunE = a.withClient(func(ctx context.Context, _ []string) error {
		doc, err := a.client.Get(ctx, nil, "me")
		switch {
		case err != nil:
			return err
		case a.json:
			return a.printDoc(doc)
		}
		var me struct {
			Name       string     `json:"name"`
			Kind       string     `json:"kind"`
			Scope      string     `json:"scope"`
			Expires    *time.Time `json:"expires_at"`
			Login      bool       `json:"login"`
			Version    string     `json:"version"`
			Deployment string     `json:"deployment"`
		}
		if err := json.Unmarshal(doc, &me); err != nil {
			return err
		}
		var f screen.Facts
		f.Add("name", me.Name)
		if !me.Login {
			f.Add("token", "not required")
		} else {
			f.Add("kind", me.Kind)
		}
		f.Add("scope", me.Scope)
		if me.Expires != nil {
			f.Add("expires", me.Expires.Local().Format(time.DateTime))
		}
		f.Add("coordinator", a.client.URL()+" "+me.Version)
		f.Add("deployment", me.Deployment)
		return f.Write(a.out)
	})
	return c
}
