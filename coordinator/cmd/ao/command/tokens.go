package command

import (
	"cmp"
	"os"
	"strconv"
	"strings"
	"time"

	"ao/coordinator/access"
	"ao/coordinator/cmd/ao/screen"

	"github.com/spf13/cobra"
)

const aboutTokens = `Create, list and revoke API tokens. These commands change the file that the coordinator
has as AO_API_TOKENS, on the machine where it is stored. The coordinator reloads it when it changes. With such
a file every request needs a token; the file contains only hashes of tokens.

Scopes: read can see everything; run can also start, resume and stop runs; admin can do everything (agents,
schemas, runners, deletion).`

func tokensCommand(a *app) *cobra.Command {
	var file string
	c := &cobra.Command{Use: "tokens", Short: "Create, list and revoke API tokens of a coordinator", Long: aboutTokens,
		Args: noArguments}
	c.PersistentFlags().StringVar(&file, "file", "", "the token file (AO_API_TOKENS)")
	at := func() (string, error) {
		path := cmp.Or(file, os.Getenv("AO_API_TOKENS"))
		if path == "" {
			return "", usagef("set --file or AO_API_TOKENS to the coordinator's token file")
		}
		return path, nil
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	c.AddCommand(tokenCreateCommand(a, at), tokenListCommand(a, at), tokenRevokeCommand(a, at))
	return c
}

// onFile wraps a command that changes the token file and needs no coordinator.
func onFile(a *app, at func() (string, error), f func(path string, args []string) error) func(*cobra.Command,
	[]string) error {
	return func(_ *cobra.Command, args []string) error {
		path, err := at()
		if err != nil {
			return err
		}
		a.parsed = true
		return f(path, args)
	}
}

// token is a token in JSON output.
type token struct {
	Name    string     `json:"name"`
	Scopes  []string   `json:"scopes"`
	Token   string     `json:"token,omitempty"` // only when it is created
	Created *time.Time `json:"created_at,omitempty"`
	Expires *time.Time `json:"expires_at,omitempty"`
	Expired bool       `json:"expired,omitempty"`
}

func tokenCreateCommand(a *app, at func() (string, error)) *cobra.Command {
	var name, expires string
	var scopes []string
	c := &cobra.Command{
		Use: "create --name NAME --scope SCOPE", Short: "Create a token and print it once; only its hash is stored",
		Args:    noArguments,
		Example: "  ao tokens create --file /etc/ao/coordinator/tokens --name ci --scope run --expires 720h",
	}
	c.Flags().StringVar(&name, "name", "", "name of the token, in the file and in error messages")
	c.Flags().StringSliceVar(&scopes, "scope", nil, "read, run or admin; separate several by commas")
	c.Flags().StringVar(&expires, "expires", "", "lifetime, such as 720h or 30d; default: never expires")
	for _, flag := range []string{"name", "scope"} {
		_ = c.MarkFlagRequired(flag) // fails only for a flag that does not exist
	}
	completeFlag(c, "scope", cobra.FixedCompletions([]string{"read", "run", "admin"}, noFiles))
	c.RunE = onFile(a, at, func(path string, _ []string) error {
		until, err := parseExpiry(a, expires)
		if err != nil {
			return err
		}
		if err := access.CheckName(name); err != nil {
			return usageError{err}
		}
		if _, err := access.ReadScopes(strings.Join(scopes, ",")); err != nil {
			return usageError{err}
		}
		made, err := access.Create(path, name, scopes, until)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(token{Name: name, Scopes: scopes, Token: made, Expires: timePointer(until)})
		}
		a.print(made + "\n")
		a.note("store the token now; it cannot be shown again. Use it as AO_TOKEN or as 'Authorization: Bearer …'")
		return nil
	})
	return c
}

// parseExpiry parses a token's lifetime and returns its expiry; the zero time is never.
func parseExpiry(a *app, expires string) (time.Time, error) {
	if expires == "" {
		return time.Time{}, nil
	}
	d, err := time.ParseDuration(expires)
	if days, ok := strings.CutSuffix(expires, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || d <= 0 || d > 100*365*24*time.Hour {
		return time.Time{}, usagef("expires %q: write a duration such as 720h or 30d", expires)
	}
	return a.now().Add(d), nil
}

// timePointer returns nil for the zero time.
func timePointer(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Second)
	return &t
}

func tokenListCommand(a *app, at func() (string, error)) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List the names and scopes of tokens", Args: noArguments}
	c.RunE = onFile(a, at, func(path string, _ []string) error {
		all, err := access.List(path)
		if err != nil {
			return err
		}
		table := screen.NewTable("NAME", "SCOPES", "CREATED", "EXPIRES")
		for _, e := range all {
			doc := token{Name: e.Name, Scopes: strings.Split(e.Scopes, ","), Created: timePointer(e.Created),
				Expires: timePointer(e.Expires), Expired: e.Expired(a.now())}
			if a.json {
				a.printJSON(doc)
				continue
			}
			table.Row(e.Name, e.Scopes, date(e.Created, "-"), date(e.Expires, "never")+
				map[bool]string{true: " (expired)"}[doc.Expired])
		}
		switch {
		case a.json:
			return nil
		case len(all) == 0:
			a.note("no tokens; 'ao tokens create' creates one")
			return nil
		}
		return a.print(table.String())
	})
	return c
}

func date(t time.Time, none string) string {
	if t.IsZero() {
		return none
	}
	return t.UTC().Format(time.RFC3339)
}

func tokenRevokeCommand(a *app, at func() (string, error)) *cobra.Command {
	c := &cobra.Command{
		Use: "revoke NAME", Aliases: []string{"delete"}, Short: "Revoke a token", Args: exactlyOne("a token"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if path, err := at(); err == nil {
				all, _ := access.List(path)
				for _, e := range all {
					names = append(names, e.Name)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
	c.RunE = onFile(a, at, func(path string, args []string) error {
		if err := access.Revoke(path, args[0]); err != nil {
			return err
		}
		a.note("%s revoked", args[0])
		return nil
	})
	return c
}
