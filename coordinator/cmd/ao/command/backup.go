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

const aboutBackup = `Write everything that is kept in NATS (runs, events, agents, schemas, keys, what waits in the inbox) into one file; - is standard
output. Coordinators and workers may go on meanwhile: the file has what was accepted before it was begun. It speaks to
NATS itself, at AO_NATS_URL, with a coordinator's credential (AO_NATS_CREDS; AO_NATS_CA where NATS has TLS). The file holds secrets, as
NATS's own data does.

What 'ao init' made (API tokens, NATS keys) and the files of agents are not in it.`

const aboutRestore = `Make everything that 'ao backup' wrote anew, in an empty NATS, before coordinators and workers are started; - is standard
input. A file is read to its end and checked first. It speaks to NATS itself, at AO_NATS_URL, with a coordinator's credential (AO_NATS_CREDS;
AO_NATS_CA where NATS has TLS).

Runs that had ended are as they were. A run that waited at the time of the backup waits again, and is begun, also if it was
begun after the backup: look at 'ao runs --status pending' before the workers are started, and stop what must not be. A run that was under way ends as
runner_disconnected, unless its worker still runs and says otherwise. What was accepted after the backup is gone.`

func backupCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "backup FILE", Short: "Write all that is kept in NATS into one file", Long: aboutBackup, Args: exactlyOne("a file")}
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
			return usagef("there is a file %s already; name another, so that no backup is lost", file)
		}
		part := file + ".part" // a file of the name that was asked for is whole
		_ = os.Remove(part)    // of a backup that was cut off, or somebody else's, with other rights
		f, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR) {
			return usagef("%s cannot be made: %v; name a file in a folder that is there, and yours", file, errors.Unwrap(err))
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
		return table.Write(a.out)
	})
	return c
}

// noteBackup has coordinators know when the last backup was. The backup is whole, whether that is noted or not.
func noteBackup(ctx context.Context, a *app, nc *nats.Conn, began time.Time) {
	ctx, cancel := context.WithTimeout(ctx, reach)
	defer cancel()
	if err := backup.Note(ctx, nc, began); err != nil {
		a.note("the backup is whole, but NATS does not note when it was (ao_backup_timestamp_seconds): %v", err)
	}
}

func restoreCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "restore FILE", Short: "Make anew what 'ao backup' wrote, in an empty NATS", Long: aboutRestore, Args: exactlyOne("a file")}
	c.RunE = onNATS(a, func(ctx context.Context, nc *nats.Conn, replicas int, file string) error {
		in := a.in
		if file != "-" {
			f, err := os.Open(file)
			if err != nil {
				return usagef("%v; name a file that 'ao backup' wrote", err)
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
		return table.Write(a.out)
	})
	return c
}

// streamTable lists what a backup holds.
type streamTable struct{ *screen.Table }

func streams() streamTable { return streamTable{screen.NewTable("STREAM", "MESSAGES", "BYTES")} }

func (t streamTable) add(s backup.Stream) {
	t.Row(s.Name, strconv.FormatUint(s.Messages, 10), strconv.FormatInt(s.Bytes, 10))
}

// reach is how long a NATS that should be there may take to answer.
const reach = 10 * time.Second

// onNATS is the work of a command that speaks to NATS itself, as a coordinator does, and is given a file.
func onNATS(a *app, f func(ctx context.Context, nc *nats.Conn, replicas int, file string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		var url string
		var replicas int
		var login bus.Login
		if err := config.Parse(config.Program{Name: "ao"}, nil, os.LookupEnv, config.NATSURL.To(&url), config.NATSReplicas.To(&replicas),
			config.NATSCreds.To(&login.Creds), config.NATSCA.To(&login.CA), config.NATSCert.To(&login.Cert), config.NATSKey.To(&login.Key)); err != nil {
			return usageError{err}
		}
		if a.url != "" {
			return usagef("ao %s speaks to NATS itself: name its address in AO_NATS_URL (now %s) and leave out --url, which is a coordinator's", c.Name(), bus.RedactURL(url))
		}
		if url == config.Embed {
			return usagef(`AO_NATS_URL: "embed" is inside a coordinator; name the address where it listens (AO_NATS_LISTEN), such as nats://127.0.0.1:4222`)
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
				err = fmt.Errorf("%w: NATS did not answer that; has it JetStream, and is AO_NATS_CREDS the credential of a coordinator (coordinator/nats.nk)? No other may do this", err)
			}
			return fmt.Errorf("%s: %w", c.Name(), err)
		}
		return nil
	}
}
