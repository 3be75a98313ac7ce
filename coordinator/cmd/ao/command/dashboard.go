package command

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"ao/coordinator/cmd/ao/browser"
	client "ao/shared/clients/go"

	"github.com/spf13/cobra"
)

const aboutDashboard = `Open the coordinator's dashboard in a browser and print its address.

If the coordinator requires tokens, the browser is logged in with ao's token (AO_TOKEN) by a one-time code
that expires after a minute. With --print the address includes that code and no browser is opened: for a
browser on another machine.`

func dashboardCommand(a *app) *cobra.Command {
	var printOnly bool
	c := &cobra.Command{Use: "dashboard", Short: "Open the dashboard in a browser", Args: noArguments,
		Long: aboutDashboard}
	c.Flags().BoolVar(&printOnly, "print", false, "print the address and open nothing")
	c.RunE = a.withClient(func(ctx context.Context, _ []string) error {
		plain, login, err := a.dashboardURLs(ctx)
		if err != nil {
			return err
		}
		if !printOnly {
			err := browser.Open(login)
			if err == nil {
				return a.printAddress(plain)
			}
			a.note("cannot open a browser: %s; open the address yourself", errorText(err))
		}
		return a.printAddress(login)
	})
	return c
}

// printAddress prints the dashboard's address.
func (a *app) printAddress(at string) error {
	if !a.json {
		return a.print(at + "\n")
	}
	return a.printJSON(map[string]string{"url": at})
}

// dashboardURLs returns the dashboard's address, and the one that logs a browser in. The code follows a #, so no
// server and no log sees it.
func (a *app) dashboardURLs(ctx context.Context) (plain, login string, err error) {
	plain = a.client.URL() + "/ui/"
	caller, err := fetch[me](ctx, a, "me")
	if err != nil || !caller.Login {
		return plain, plain, err
	}
	answer, err := a.once.Do(ctx, client.Call{Method: http.MethodPost, Path: []string{"login", "codes"}})
	if err != nil {
		return "", "", err
	}
	var made struct {
		Code string `json:"code"`
	}
	err = json.Unmarshal(answer.Document, &made)
	return plain, plain + "login#code=" + url.QueryEscape(made.Code), err
}
