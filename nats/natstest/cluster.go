package natstest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ao/nats/bus"

	"github.com/nats-io/nats.go"
)

// ClusterProcs is a NATS cluster of three server processes; each can be killed, paused and started again by itself.
type ClusterProcs struct {
	Servers [3]*Process
	t       testing.TB
}

// roomy is the space of a cluster's server, without MaxStore. The streams' limits follow from it. This machine's disk
// would give another one each time, and it is not reserved there.
const roomy = 64 << 30

// Cluster starts a cluster that ends with the test, and waits until it has JetStream.
func Cluster(t testing.TB, opts ...Option) *ClusterProcs {
	t.Helper()
	c := &ClusterProcs{t: t}
	var routes []string
	for range c.Servers {
		routes = append(routes, FreeAddr(t))
	}
	for i := range c.Servers {
		p := process(t, append([]Option{MaxStore(roomy)}, opts...))
		p.c.Name, p.c.ClusterListen, p.c.Routes = fmt.Sprintf("n%d", i+1), routes[i], routes
		t.Cleanup(func() { // a clean shutdown would take a second each
			if p.cmd != nil {
				p.Kill()
			}
		})
		c.Servers[i] = p
	}
	c.Start()
	return c
}

// Start starts all servers, after Kill, and waits until they have JetStream.
func (c *ClusterProcs) Start() {
	c.t.Helper()
	for _, p := range c.Servers {
		p.launch()
	}
	for _, p := range c.Servers {
		p.wait("is one of a cluster that has a leader", jetStreamReady)
	}
}

// Kill ends all servers with SIGKILL. It may be called when some are not running.
func (c *ClusterProcs) Kill() {
	for _, p := range c.Servers {
		p.Kill()
	}
}

// Leader returns the server that leads a stream now.
func (c *ClusterProcs) Leader(stream string) *Process {
	c.t.Helper()
	var leader *Process
	c.until("stream "+stream+" has a leader", func(js nats.JetStreamContext) bool {
		info, err := js.StreamInfo(stream)
		if err != nil || info.Cluster == nil {
			return false
		}
		leader = c.Named(info.Cluster.Leader)
		return leader != nil
	})
	return leader
}

// Named returns the server with that JetStream name, nil if there is none.
func (c *ClusterProcs) Named(name string) *Process {
	for _, p := range c.Servers {
		if p.c.Name == name {
			return p
		}
	}
	return nil
}

// Current waits until every stream has a leader and all its replicas are up to date. Then the next server may
// be stopped.
func (c *ClusterProcs) Current() {
	c.t.Helper()
	c.until("all replicas are current", func(js nats.JetStreamContext) bool {
		current := 0
		for info := range js.Streams(nats.MaxWait(2 * time.Second)) {
			if info.Cluster == nil || info.Cluster.Leader == "" {
				return false
			}
			for _, r := range info.Cluster.Replicas {
				if !r.Current || r.Offline {
					return false
				}
			}
			current++
		}
		return current > 0
	})
}

// until polls any server that is up.
func (c *ClusterProcs) until(what string, ok func(nats.JetStreamContext) bool) {
	c.t.Helper()
	nc, err := nats.Connect(c.URL(), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		c.t.Fatal(err)
	}
	defer nc.Close()
	js, err := nc.JetStream(nats.MaxWait(time.Second))
	if err != nil {
		c.t.Fatal(err)
	}
	Until(c.t, what, func() bool { return ok(js) })
}

// URL returns the addresses of all servers.
func (c *ClusterProcs) URL() string {
	var all []string
	for _, p := range c.Servers {
		all = append(all, p.URL())
	}
	return strings.Join(all, ",")
}

// Conn returns a connection to the cluster with our options; it ends with the test.
func (c *ClusterProcs) Conn(t testing.TB) *nats.Conn {
	t.Helper()
	return connect(t, c.URL())
}

// Bus returns a bus on its own connection, with three replicas, after Setup.
func (c *ClusterProcs) Bus(t testing.TB) *bus.Bus {
	t.Helper()
	return setUp(t, c.Conn(t), bus.Config{Replicas: len(c.Servers)})
}
