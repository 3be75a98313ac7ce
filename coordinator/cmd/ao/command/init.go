package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"ao/coordinator/cmd/ao/keyring"
	"ao/coordinator/cmd/ao/screen"
	"ao/nats/users"

	"github.com/spf13/cobra"
)

const aboutInit = `Create the credentials of a deployment, once: NATS users with their permissions, API tokens
with scopes admin and run, and with --tls a certificate authority with certificates for NATS and the HTTP API.
Existing files stay as they are: a second call changes nothing and says so. It needs no coordinator and no
network. Only their creator can read the secrets: run the programs as the same user.

Every program has its own folder below --dir: coordinator, worker, publisher, nats, client (tokens for people
and programs), ca.

--worker creates another NATS user for workers, limited to these profiles, in the folder worker-NAME:
  ao init --dir /etc/ao --worker text=procedural.text --worker mind=autonomous.claude-code,autonomous.llm
If no worker gets the credential in the folder worker, which is not limited, workers cannot take each other's
runs.

--nats-data is the data folder of a NATS server. Its storage limit is written to store.conf, which the
server's configuration includes (nats/server.conf): the space in use plus three quarters of the free space, at
least the limits of its streams; or AO_NATS_STORE, such as 10GB. A later call checks it again.

--nats-staging is the data folder of a single NATS server whose batches are kept in mounted memory, as
docker-compose.yml does. It creates the mount point, which the user of NATS must own.`

// noFolder refuses arguments: the folder is a flag.
func noFolder(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("init takes no arguments; did you mean --dir %s?", args[0])
	}
	return nil
}

func initCommand(a *app) *cobra.Command {
	var dir string
	var workers, hosts, data, staging []string
	var tls bool
	c := &cobra.Command{
		Use: "init --dir DIR", Short: "Create the users, tokens and certificates of a deployment", Long: aboutInit,
		Args: noFolder,
		Example: "  ao init --dir /etc/ao\n  ao init --dir /etc/ao --tls --host nats --host " +
			"coordinator --host 10.0.0.5",
	}
	c.Flags().StringVar(&dir, "dir", "", "folder for all files; created if missing")
	c.Flags().StringArrayVar(&workers, "worker", nil,
		"NAME=TYPE.PROFILE[,…]: a NATS user for workers limited to these profiles")
	c.Flags().BoolVar(&tls, "tls", false,
		"create an authority and certificates; a later call renews those that expire within 30 days")
	c.Flags().StringSliceVar(&hosts, "host", nil,
		"names and addresses of the servers, for the certificates; localhost is always included")
	c.Flags().StringArrayVar(&data, "nats-data", nil,
		"data folder of a NATS server: its storage limit is written to store.conf")
	c.Flags().StringArrayVar(&staging, "nats-staging", nil,
		"data folder of a single NATS server: the mount point for batches in memory is created")
	_ = c.MarkFlagRequired("dir") // fails only for a flag that does not exist
	c.RunE = func(*cobra.Command, []string) error {
		w := keyring.Options{Dir: dir, TLS: tls, Hosts: hosts, Now: a.now(), Workers: map[string][]users.Profile{}}
		for _, text := range workers {
			name, profiles, err := parseWorker(text)
			if err != nil {
				return usageError{err}
			}
			w.Workers[name] = profiles
		}
		if len(hosts) > 0 && !tls {
			return usagef("--host is for certificates: add --tls")
		}
		for _, h := range hosts {
			if h == "" || strings.ContainsAny(h, "/: \t") && !strings.Contains(h, "::") && strings.Count(h, ":") < 2 {
				return usagef("host %q: write a name or an address, without a port", h)
			}
		}
		store, err := keyring.ReadSize(os.Getenv("AO_NATS_STORE"))
		if err != nil {
			return usagef("AO_NATS_STORE: %w", err)
		}
		w.NATSData, w.Store, w.Staging = data, store, staging
		a.parsed = true
		ring, err := keyring.Make(w)
		if err != nil {
			return err
		}
		return showFiles(a, ring)
	}
	return c
}

// parseWorker parses NAME=TYPE.PROFILE[,…].
func parseWorker(text string) (string, []users.Profile, error) {
	name, list, ok := strings.Cut(text, "=")
	if !ok || list == "" || name == "" ||
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" || len(name) > 60 {
		return "", nil, fmt.Errorf("worker %q: write NAME=TYPE.PROFILE, such as text=procedural.text, with a name of "+
			"letters, digits, '-' and '_'", text)
	}
	var all []users.Profile
	for _, word := range strings.Split(list, ",") {
		p, err := users.ReadProfile(word)
		if err != nil {
			return "", nil, err
		}
		all = append(all, p)
	}
	return name, all, nil
}

func showFiles(a *app, ring *keyring.Result) error {
	if a.json {
		return a.printJSON(ring)
	}
	table := screen.NewTable("FILE", "", "WHAT")
	for _, f := range ring.Files {
		table.Row(filepath.Join(ring.Dir, f.Path), f.State, f.What)
	}
	a.print(table.String())
	if !ring.Changed() {
		a.note("all files exist already; nothing changed")
	}
	at := func(name string) string { return filepath.Join(ring.Dir, name) }
	var b strings.Builder
	fmt.Fprintf(&b, "\nNext:\n  nats-server   include users.conf of %s (path relative to the including file), and "+
		"reload the server when it changes\n", at("nats"))
	fmt.Fprintf(&b, "  or embedded   AO_NATS_USERS=%s\n", at("nats/users.conf"))
	coordinator, worker, people, publisher := "", "", "", ""
	if ring.TLS {
		coordinator = fmt.Sprintf(" AO_NATS_CA=%s AO_TLS_CERT=%s AO_TLS_KEY=%s", at("coordinator/ca.crt"),
			at("coordinator/http.crt"), at("coordinator/http.key"))
		worker = fmt.Sprintf(" AO_NATS_CA=%s AO_CA=%s", at("worker/ca.crt"), at("worker/ca.crt"))
		people = fmt.Sprintf(" AO_CA=%s", at("client/ca.crt"))
		publisher = fmt.Sprintf(" --tlsca %s", at("publisher/ca.crt"))
	}
	fmt.Fprintf(&b, "  coordinator   AO_NATS_CREDS=%s AO_API_TOKENS=%s%s\n", at("coordinator/nats.nk"),
		at("coordinator/tokens"), coordinator)
	fmt.Fprintf(&b, "  worker        AO_NATS_CREDS=%s%s\n", at("worker/nats.nk"), worker)
	for _, u := range ring.Users {
		if u.Role == users.Publisher {
			fmt.Fprintf(&b, "  publisher     nats --nkey %s --inbox-prefix %s%s request ao.api.runs.create '…'\n",
				at(u.Name+"/nats.nk"), u.Inbox, publisher)
		}
	}
	fmt.Fprintf(&b, "  ao, programs  AO_TOKEN=\"$(cat %s)\"%s\n", at("client/admin.token"), people)
	return a.print(b.String())
}
