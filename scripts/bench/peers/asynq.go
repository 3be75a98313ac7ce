package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
)

// Persistence settings of Redis.
var (
	redisUsual    []string // without a configuration file: occasional snapshots
	redisEverysec = []string{"--appendonly", "yes"}
	redisAlways   = []string{"--appendonly", "yes", "--appendfsync", "always"}
)

// Settings of asynq.
const (
	asynqUsual = "usual"
	asynqTuned = "tuned"
	asynqQuick = "quick" // tuned, and lost jobs are retried at once
)

func launchAsynq(redis []string, set string) func(context.Context, *bench, plan) (*system, error) {
	return func(ctx context.Context, b *bench, p plan) (*system, error) {
		return launchSystem(ctx, b, p, func(s *system) error {
			addr, err := b.redis(ctx, s, redis)
			if err != nil {
				return err
			}
			opt := asynq.RedisClientOpt{Addr: addr}
			if set != asynqUsual {
				opt.PoolSize = b.producers
			}
			client := asynq.NewClient(opt)
			inspect := asynq.NewInspector(opt)
			s.closes = append(s.closes, func() { client.Close(); inspect.Close() })
			s.accept = func(ctx context.Context, job []byte) error {
				_, err := client.EnqueueContext(ctx, asynq.NewTask("noop", job))
				return err
			}
			s.empty = func(context.Context) (bool, error) {
				q, err := inspect.GetQueueInfo("default")
				return err == nil && q.Pending+q.Active+q.Scheduled+q.Retry == 0, err
			}
			s.worker = func(name string, env ...string) (*proc, error) {
				return s.startRole("asynq-worker", name, append(env, "AO_PEERS_SERVER="+addr, "AO_PEERS_SET="+
					set, "AO_PEERS_SLOTS="+strconv.Itoa(max(p.slots/max(p.workers, 1), 1)))...)
			}
			return nil
		})
	}
}

func asynqWorker(ctx context.Context) (err error) {
	defer caught(&err)
	slots := must(strconv.Atoi(os.Getenv("AO_PEERS_SLOTS")))
	opt := asynq.RedisClientOpt{Addr: os.Getenv("AO_PEERS_SERVER")}
	cfg := asynq.Config{Concurrency: slots, LogLevel: asynq.FatalLevel, BaseContext: func() context.Context {
		return ctx
	}}
	switch os.Getenv("AO_PEERS_SET") {
	case asynqQuick:
		cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return 0 }
		cfg.DelayedTaskCheckInterval = time.Second
		fallthrough
	case asynqTuned:
		opt.PoolSize = 2 * slots
		cfg.TaskCheckInterval = 5 * time.Millisecond
	}
	r := newReport()
	server := asynq.NewServer(opt, cfg)
	check(server.Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		return r.work(ctx, t.Payload())
	})))
	r.ready()
	<-ctx.Done()
	server.Shutdown()
	return nil
}

// redis starts a Redis server and returns its address.
func (b *bench) redis(ctx context.Context, s *system, keep []string) (_ string, err error) {
	defer caught(&err)
	path := must(findProgram("redis-server"))
	addr := must(freeAddr())
	host, port, _ := net.SplitHostPort(addr)
	args := append([]string{"--bind", host, "--port", port, "--dir", s.dir}, keep...)
	p := must(s.startProcess(child{kind: "servers", name: "redis", path: path, args: args, log: s.logFile("redis")}))
	return addr, waitListening(ctx, p, addr)
}

// waitListening waits until an address accepts connections.
func waitListening(ctx context.Context, p *proc, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return poll(ctx, 10*time.Millisecond, func() (bool, error) {
		select {
		case <-p.done:
			return false, fmt.Errorf("%s ended: %v", p.name, p.state)
		default:
		}
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil, nil
	})
}
