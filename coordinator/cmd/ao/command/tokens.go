package command

import (
	"cmp"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"time"

	"ao/coordinator/access"
	"ao/coordinator/cmd/ao/screen"

	"github.com/spf13/cobra"
)

const aboutTokens = `Make, list and revoke API tokens: they work on the file that the coordinator is given as AO_API_TOKENS, on the machine where it lies.
The coordinator reads it again as soon as it changes. With such a file every request needs a token; the file has their hashes only.

Scopes: read looks at everything; run can also start, resume and stop runs; admin can do everything (agents, schemas, runners, deleting).`

func tokensCommand(a *app) *cobra.Command {
	var file string
	c := &cobra.Command{Use: "tokens", Short: "Make, list and revoke the API tokens of a coordinator", Long: aboutTokens, Args: cobra.NoArgs}
	c.PersistentFlags().StringVar(&file, "file", "", "the file of tokens (AO_API_TOKENS)")
	at := func() (string, error) {
		path := cmp.Or(file, os.Getenv("AO_API_TOKENS"))
		if path == "" {
			return "", usagef("which file? name it with --file or AO_API_TOKENS, as the coordinator has it")
		}
		return path, nil
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	c.AddCommand(tokenCreateCommand(a, at), tokenListCommand(a, at), tokenRevokeCommand(a, at))
	return c
}

// onFile is a command's work that needs no coordinator.
func onFile(a *app, at func() (string, error), f func(path string, args []string) error) func(*cobra.Command, []string) error {
	return func(_ *cobra.Command, args []string) error {
		path, err := at()
		if err != nil {
			return err
		}
		a.parsed = true
		return f(path, args)
	}
}

// token is a token as programs are told of it.
type token struct {
	Name    string     `json:"name"`
	Scopes  []string   `json:"scopes"`
	Token   string     `json:"token,omitempty"` // once, when it is made
	Created *time.Time `json:"created_at,omitempty"`
	Expires *time.Time `json:"expires_at,omitempty"`
	Expired bool       `json:"expired,omitempty"`
}

func tokenCreateCommand(a *app, at func() (string, error)) *cobra.Command {
	var name, expires string
	var scopes []string
	c := &cobra.Command{
		Use: "create --name NAME --scope SCOPE", Short: "Make a token and print it: this once, for only its hash is kept", Args: cobra.NoArgs,
		Example: "  ao tokens create --file /etc/ao/coordinator/tokens --name ci --scope run --expires 720h",
	}
	c.Flags().StringVar(&name, "name", "", "what it is called, in the file and in refusals")
	c.Flags().StringSliceVar(&scopes, "scope", nil, "read, run or admin; several with commas")
	c.Flags().StringVar(&expires, "expires", "", "how long it is good, such as 720h or 30d; default for ever")
	for _, flag := range []string{"name", "scope"} {
		_ = c.MarkFlagRequired(flag) // fails only for a flag that does not exist
	}
	completeFlag(c, "scope", cobra.FixedCompletions([]string{"read", "run", "admin"}, cobra.ShellCompDirectiveNoFileComp))
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
			doc, err := json.Marshal(token{Name: name, Scopes: scopes, Token: made, Expires: timePointer(until)})
			if err != nil {
				return err
			}
			return a.printDoc(doc)
		}
		if err := a.print(made + "\n"); err != nil {
			return err
		}
		a.note("keep it now: it is nowhere else. Use it as AO_TOKEN, or as 'Authorization: Bearer …'")
		return nil
	})
	return c
}

// parseExpiry reads how long a token is good; the zero time is for ever.
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
		return time.Time{}, usagef("expires %q: write a time span such as 720h or 30d", expires)
	}
	return a.now().Add(d), nil
}

// timePointer is a time that may be none.
func timePointer(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Second)
	return &t
}

func tokenListCommand(a *app, at func() (string, error)) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List the tokens: names and scopes, never the tokens", Args: cobra.NoArgs}
	c.RunE = onFile(a, at, func(path string, _ []string) error {
		all, err := access.List(path)
		if err != nil {
			return err
		}
		table := screen.NewTable("NAME", "SCOPES", "CREATED", "EXPIRES")
		for _, e := range all {
			doc := token{Name: e.Name, Scopes: strings.Split(e.Scopes, ","), Created: timePointer(e.Created), Expires: timePointer(e.Expires), Expired: e.Expired(a.now())}
			if a.json {
				raw, err := json.Marshal(doc)
				if err == nil {
					err = a.printDoc(raw)
				}
				if err != nil {
					return err
				}
				continue
			}
			table.Row(e.Name, e.Scopes, date(e.Created, "-"), date(e.Expires, "never")+map[bool]string{true: " (over)"}[doc.Expired])
		}
		switch {
		case a.json:
			return nil
		case len(all) == 0:
			a.note("no tokens; 'ao tokens create' makes one")
			return nil
		}
		return table.Write(a.out)
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
		Use: "revoke NAME", Aliases: []string{"delete"}, Short: "Revoke a token: whoever shows it from now on is refused", Args: exactlyOne("a token"),
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
		a.note("%s is revoked", args[0])
		return nil
	})
	return c
}
