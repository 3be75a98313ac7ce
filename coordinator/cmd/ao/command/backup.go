package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"syscall"
	"time"

	"ao/coordinator/cmd/ao/screen"
	"ao/nats/backup"
	"ao/nats/bus"
	"ao/shared/config"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
)

const aboutBackup = `Back up everything stored in NATS (runs, events, agents, schemas, keys, inbox, damages) to
one file; - is standard output. Coordinators and workers can keep running: the file contains what was accepted
before the backup started.

It connects to NATS itself, at AO_NATS_URL, with a coordinator's credential (AO_NATS_CREDS; AO_NATS_CA if NATS
uses TLS). The file contains secrets, as the data of NATS does.

It does not contain what 'ao init' created (API tokens, NATS keys) or the files of agents.`

const aboutRestore = `Restore a backup into an empty NATS, before coordinators and workers are started; - is
standard input. A file is checked completely first.

It connects to NATS itself, at AO_NATS_URL, with a coordinator's credential (AO_NATS_CREDS; AO_NATS_CA if NATS
uses TLS). Until it has finished, coordinators do not use that NATS. If it is killed, run it again: it begins anew.

Runs that had ended stay as they were. A run that was pending is pending again and will start, even if it
started after the backup: check 'ao runs --status pending' before you start workers, and stop what must not
run. A run that was running fails with runner_disconnected, unless its worker is still running and reports
otherwise. Everything accepted after the backup is lost.`

func backupCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "backup FILE", Short: "Back up everything stored in NATS to one file", Long: aboutBackup,
		Args: exactlyOne("a file")}
	c.RunE = onNATS(a, func(ctx context.Context, nc *nats.Conn, _ int, file string) error {
		began := time.Now()
		if file == "-" {
			w := bufio.NewWriterSize(a.out, 1<<20)
			err := backup.Write(ctx, nc, w, func(backup.Stream) {})
			if err == nil {
				err = w.Flush()
			}
			if err == nil {
				noteBackup(ctx, a, nc, began)
			}
			return err
		}
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			return usagef("file %s already exists; name another one, so that no backup is lost", file)
		}
		part := file + ".part" // only a complete backup gets the requested name
		_ = os.Remove(part)    // left by an interrupted backup
		f, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR) {
			return usagef("%s cannot be created: %v; name a file in an existing folder that you can write to", file,
				errors.Unwrap(err))
		}
		if err != nil {
			return err
		}
		defer os.Remove(part)
		table := streams()
		err = errors.Join(backup.Write(ctx, nc, f, table.add), f.Sync(), f.Close())
		if err == nil {
			err = os.Rename(part, file)
		}
		if err != nil {
			return err
		}
		noteBackup(ctx, a, nc, began)
		return a.print(table.String())
	})
	return c
}

// noteBackup records the time of the backup for the coordinators' metrics. If that fails, the backup is still complete.
func noteBackup(ctx context.Context, a *app, nc *nats.Conn, began time.Time) {
	ctx, cancel := context.WithTimeout(ctx, reach)
	defer cancel()
	if err := backup.RecordTime(ctx, nc, began); err != nil {
		a.note("the backup is complete, but its time could not be recorded in NATS (ao_backup_timestamp_seconds): %v",
			err)
	}
}

func restoreCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "restore FILE", Short: "Restore a backup into an empty NATS", Long: aboutRestore,
		Args: exactlyOne("a file")}
	c.RunE = onNATS(a, func(ctx context.Context, nc *nats.Conn, replicas int, file string) error {
		in := a.in
		if file != "-" {
			f, err := os.Open(file)
			if err != nil {
				return usagef("%v; name a file written by 'ao backup'", err)
			}
			defer f.Close()
			made, _, err := backup.Check(bufio.NewReaderSize(f, 1<<20))
			if err != nil {
				return err
			}
			a.note("%s was made at %s", file, made.Local().Format(time.DateTime))
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				return err
			}
			in = f
		}
		table := streams()
		if err := backup.Restore(ctx, nc, bufio.NewReaderSize(in, 1<<20), replicas, table.add); err != nil {
			return err
		}
		return a.print(table.String())
	})
	return c
}

// streamTable lists the streams of a backup.
type streamTable struct{ *screen.Table }

func streams() streamTable { return streamTable{screen.NewTable("STREAM", "MESSAGES", "BYTES")} }

func (t streamTable) add(s backup.Stream) {
	t.Row(s.Name, strconv.FormatUint(s.Messages, 10), strconv.FormatInt(s.Bytes, 10))
}

// reach is how long NATS may take to answer.
const reach = 10 * time.Second

// onNATS wraps a command that connects to NATS itself and takes a file.
func onNATS(a *app, f func(ctx context.Context, nc *nats.Conn, replicas int, file string) error) func(*cobra.Command,
	[]string) error {
	return func(c *cobra.Command, args []string) error {
		var url string
		var replicas int
		var login bus.Login
		if err := config.Parse(config.Program{Name: "ao"}, nil, os.LookupEnv, config.NATSURL.To(&url),
			config.NATSReplicas.To(&replicas), config.NATSCreds.To(&login.Creds), config.NATSCA.To(&login.CA),
			config.NATSCert.To(&login.Cert), config.NATSKey.To(&login.Key)); err != nil {
			return usageError{err}
		}
		if a.url != "" {
			return usagef("ao %s connects to NATS itself: set AO_NATS_URL to its address (now %s) and omit --url, "+
				"which is for coordinators", c.Name(), bus.RedactURL(url))
		}
		if url == config.Embed {
			return usagef(`AO_NATS_URL: "embed" is NATS inside a coordinator; set the address where it listens ` +
				`(AO_NATS_LISTEN), such as nats://127.0.0.1:4222`)
		}
		a.parsed = true
		opts, err := login.Options()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context(), reach)
		defer cancel()
		nc, err := bus.Connect(ctx, url, "ao", slog.New(slog.DiscardHandler), opts...)
		if err != nil {
			return err
		}
		defer nc.Close()
		a.note("%s: NATS at %s", c.Name(), bus.RedactURL(nc.ConnectedUrl()))
		if err := f(c.Context(), nc, replicas, args[0]); err != nil {
			if c.Context().Err() == nil && errors.Is(err, context.DeadlineExceeded) {
				err = fmt.Errorf("%w: NATS did not answer; check that JetStream is enabled and that AO_NATS_CREDS is "+
					"a coordinator's credential (coordinator/nats.nk)", err)
			}
			return fmt.Errorf("%s: %w", c.Name(), err)
		}
		return nil
	}
}
