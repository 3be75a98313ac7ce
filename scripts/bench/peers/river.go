package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// Settings of River.
const (
	riverUsual = "usual"
	riverTuned = "tuned" // as in its own benchmark, with more connections than pgx's default of 4
	riverQuick = "quick" // job timeout 10 s, with the earliest rescue
)

// riverJob is a job in River.
type riverJob struct {
	Raw json.RawMessage `json:"job"`
}

func (riverJob) Kind() string { return "noop" }

func launchRiver(commit, set string) func(context.Context, *bench, plan) (*system, error) {
	return func(ctx context.Context, b *bench, p plan) (*system, error) {
		return launchSystem(ctx, b, p, func(s *system) (err error) {
			defer caught(&err)
			addr := must(b.postgres(ctx, s, commit))
			url := "postgres://peers@" + addr + "/postgres?sslmode=disable"
			pool := must(openPool(ctx, url, set))
			s.closes = append(s.closes, pool.Close)
			wait, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			if err := poll(wait, 20*time.Millisecond, func() (bool, error) {
				return pool.Ping(wait) == nil,
					nil
			}); err != nil {
				return fmt.Errorf("PostgreSQL does not answer: %w", err)
			}
			driver := riverpgxv5.New(pool)
			m := must(rivermigrate.New(driver, &rivermigrate.Config{Logger: discardLogger()}))
			must(m.Migrate(ctx, rivermigrate.DirectionUp, nil))
			client := must(river.NewClient(driver, &river.Config{Logger: discardLogger()}))
			s.accept = func(ctx context.Context, job []byte) error {
				_, err := client.Insert(ctx, riverJob{job}, nil)
				return err
			}
			s.empty = func(ctx context.Context) (bool, error) {
				var n int
				err := pool.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE finalized_at IS NULL").Scan(&n)
				return err == nil && n == 0, err
			}
			slots := p.slots
			if set != riverUsual {
				slots = 2000
			}
			s.worker = func(name string, env ...string) (*proc, error) {
				return s.startRole("river-worker", name, append(env, "AO_PEERS_SERVER="+url, "AO_PEERS_SET="+
					set, "AO_PEERS_SLOTS="+strconv.Itoa(max(slots/max(p.workers, 1), 1)))...)
			}
			return nil
		})
	}
}

func openPool(ctx context.Context, url, set string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	if set != riverUsual {
		cfg.MaxConns = 64
	}
	return pgxpool.NewWithConfig(ctx, cfg)
}

func discardLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

type riverNoop struct {
	river.WorkerDefaults[riverJob]
	report
}

func (w riverNoop) Work(ctx context.Context, j *river.Job[riverJob]) error {
	return w.work(ctx, j.Args.Raw)
}

func riverWorker(ctx context.Context) (err error) {
	defer caught(&err)
	set := os.Getenv("AO_PEERS_SET")
	slots := must(strconv.Atoi(os.Getenv("AO_PEERS_SLOTS")))
	pool := must(openPool(ctx, os.Getenv("AO_PEERS_SERVER"), set))
	defer pool.Close()
	cfg := &river.Config{Logger: discardLogger(), Workers: river.NewWorkers(), Queues: map[string]river.QueueConfig{
		river.QueueDefault: {MaxWorkers: slots}}}
	if set != riverUsual {
		cfg.FetchCooldown, cfg.FetchPollInterval = 2*time.Millisecond, 20*time.Millisecond
	}
	if set == riverQuick {
		cfg.JobTimeout, cfg.RescueStuckJobsAfter = 10*time.Second, 10*time.Second
	}
	r := newReport()
	river.AddWorker(cfg.Workers, riverNoop{report: r})
	client := must(river.NewClient(riverpgxv5.New(pool), cfg))
	check(client.Start(ctx))
	r.ready()
	<-ctx.Done()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return client.Stop(stop)
}

// postgres creates a database cluster and starts its server; commit is synchronous_commit. 127.0.0.1 needs no password.
func (b *bench) postgres(ctx context.Context, s *system, commit string) (_ string, err error) {
	defer caught(&err)
	initdb := must(findProgram("initdb"))
	path := must(findProgram("postgres"))
	addr := must(freeAddr())
	host, port, _ := net.SplitHostPort(addr)
	as := must(postgresUser())
	data := filepath.Join(s.dir, "data")
	check(os.Mkdir(data, 0o700))
	if as != nil {
		check(os.Chown(data, int(as.Uid), int(as.Gid)))
	}
	made := must(start(child{name: "initdb", path: initdb, args: []string{"-D", data, "-U", "peers", "-A", "trust",
		"-E", "UTF8", "--locale=C", "--no-sync"}, user: as, log: s.logFile("postgres")}))
	select {
	case <-made.done:
	case <-ctx.Done():
		made.kill()
		return "", ctx.Err()
	}
	if made.state != nil {
		return "", fmt.Errorf("initdb: %w", made.state)
	}
	args := []string{"-D", data, "-c", "listen_addresses=" + host, "-c", "port=" +
		port, "-c", "unix_socket_directories=", "-c", "max_connections=200", "-c", "synchronous_commit=" + commit}
	p := must(s.startProcess(child{kind: "servers", name: "postgres", path: path, args: args, user: as,
		quit: syscall.SIGINT, log: s.logFile("postgres")}))
	return addr, waitListening(ctx, p, addr)
}

// postgresUser returns the user for PostgreSQL, which refuses to run as root.
func postgresUser() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.ParseUint(u.Uid, 10, 32)
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, fmt.Errorf("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")
}
