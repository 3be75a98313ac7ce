package embed_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ao/nats/embed"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/nats/users"

	"github.com/nats-io/nats.go"
)

// crowd is a server with users. A coordinator answers what publishers and workers ask, the former at length.
type crowd struct {
	*embed.Server
	users map[string]users.Credential
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	c := &crowd{users: map[string]users.Credential{}}
	var all []users.User
	for name, role := range map[string]users.Role{"coordinator": users.Coordinator, "worker": users.Worker,
		"publisher": users.Publisher, "other": users.Publisher} {
		one, err := users.New(name, role)
		if err != nil {
			t.Fatal(err)
		}
		c.users[name], all = one, append(all, one.User)
	}
	file := filepath.Join(t.TempDir(), "users.conf")
	if err := os.WriteFile(file, []byte(users.Config(all, users.TLS{})), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Server = natstest.Server(t, natstest.Listen("127.0.0.1:0"), func(cfg *embed.Config) { cfg.Users = file })
	co, err := c.login(t, "coordinator")
	if err != nil {
		t.Fatal(err)
	}
	long := bytes.Repeat([]byte("x"), 512<<10)
	for name, body := range map[string][]byte{subject.APIAgentsList: long, subject.AllRunnerAPI: []byte("{}")} {
		if _, err := co.Subscribe(name, func(m *nats.Msg) { m.Respond(body) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := co.Flush(); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *crowd) login(t *testing.T, name string, opts ...nats.Option) (*nats.Conn, error) {
	t.Helper()
	u := c.users[name]
	nc, err := nats.Connect(c.URL(), append([]nats.Option{nats.Nkey(u.Key, u.Sign), nats.NoReconnect(),
		nats.CustomInboxPrefix(u.InboxPrefix()), nats.Timeout(20 * time.Second), nats.ErrorHandler(nil)}, opts...)...)
	if err == nil {
		t.Cleanup(nc.Close)
	}
	return nc, err
}

// answered fails unless a new connection of a user is answered.
func (c *crowd) answered(t *testing.T, name, what string) {
	t.Helper()
	nc, err := c.login(t, name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if _, err := nc.Request(what, nil, 30*time.Second); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	nc.Close()
}

// TestAPublisherHasFewSubscriptions: one that connects and subscribes as often as it can gets a bounded number of both.
// Workers and coordinators go on.
func TestAPublisherHasFewSubscriptions(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.answered(t, "other", subject.APIAgentsList)
	connections, refused := 0, atomic.Int64{}
	prefix := c.users["publisher"].InboxPrefix()
	for full := false; !full; {
		nc, err := c.login(t, "publisher", nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if strings.Contains(err.Error(), "maximum subscriptions") {
				refused.Add(1)
			}
		}))
		if err != nil {
			full = strings.Contains(err.Error(), "maximum account active connections")
			t.Log(err)
			continue
		}
		connections++
		for i := range 101 {
			if _, err := nc.SubscribeSync(fmt.Sprintf("%s.%d", prefix, i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if connections != 64 {
		t.Errorf("it got %d connections, want 64", connections)
	}
	natstest.Until(t, "subscriptions are refused", func() bool { return refused.Load() >= 64 })
	// each is one in the account of the coordinators, too
	if n := c.Subscriptions(); n > 2*64*100+1000 {
		t.Errorf("there are %d subscriptions", n)
	}
	c.answered(t, "worker", subject.RunnerAPI("register"))
	if _, err := c.login(t, "coordinator"); err != nil {
		t.Errorf("a coordinator: %v", err)
	}
}

// deaf is a connection whose client stops reading.
type deaf struct {
	net.Conn
	ctx     context.Context
	stopped atomic.Bool
}

func (d *deaf) Read(p []byte) (int, error) {
	if d.stopped.Load() {
		<-d.ctx.Done()
		return 0, net.ErrClosed
	}
	return d.Conn.Read(p)
}

// Dial makes d the connection.
func (d *deaf) Dial(network, address string) (c net.Conn, err error) {
	d.Conn, err = net.Dial(network, address)
	return d, err
}

// TestAPublisherThatDoesNotReadIsCutOff: what it has not read is bounded. Others are answered meanwhile.
func TestAPublisherThatDoesNotReadIsCutOff(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	const connections, requests = 4, 100 // 50 MiB each
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range connections {
		d := &deaf{ctx: ctx}
		nc, err := c.login(t, "publisher", nats.SetCustomDialer(d))
		if err != nil {
			t.Fatal(err)
		}
		inbox := nc.NewInbox()
		if _, err := nc.SubscribeSync(inbox); err != nil || nc.Flush() != nil {
			t.Fatal(err)
		}
		d.stopped.Store(true)
		for range requests {
			_ = nc.PublishRequest(subject.APIAgentsList, inbox, nil)
		}
		_ = nc.FlushTimeout(time.Millisecond) // it sends, and gets no answer
	}
	c.answered(t, "other", subject.APIAgentsList)
	c.answered(t, "worker", subject.RunnerAPI("register"))
	natstest.Until(t, "all are cut off", func() bool {
		bytes, cut := c.Pending()
		if most := int64(connections * (17 << 20)); bytes > most {
			t.Fatalf("%d bytes are kept for those that do not read, want at most %d", bytes, most)
		}
		return cut == connections
	})
}
