package main

import (
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"ao/nats/natstest"
	"ao/scripts/try"
)

// The faults of a network. Without a fault a proxy only copies.
const (
	cut       = "cut"        // connections end, and new ones are refused
	blackHole = "black hole" // connections stand, and nothing arrives
	oneWay    = "one way"    // what is sent to the server does not arrive
	slow      = "slow"       // 4 KiB each 30 ms
)

// proxy copies connections to a server, or does not.
type proxy struct {
	listen net.Listener
	to     string

	mu      sync.Mutex
	fault   string
	changed chan struct{} // closed when the fault changes
	conns   map[net.Conn]struct{}
}

// newProxy listens on a new address.
func newProxy(to string) (_ *proxy, err error) {
	defer try.Catch(&err)
	address := try.Must(natstest.Address())
	l := try.Must(net.Listen("tcp", address))
	p := &proxy{listen: l, to: to, changed: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	go p.accept()
	return p, nil
}

func (p *proxy) address() string { return p.listen.Addr().String() }

// set starts a fault, or ends it with "".
func (p *proxy) set(fault string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
	close(p.changed)
	p.changed = make(chan struct{})
	if fault == cut {
		for c := range p.conns {
			c.Close()
		}
	}
}

func (p *proxy) state() (fault string, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.changed
}

// close ends the proxy and its connections.
func (p *proxy) close() {
	p.listen.Close()
	p.set(cut)
}

func (p *proxy) accept() {
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return
		}
		go p.serve(client)
	}
}

// serve copies one connection until either side ends it.
func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	if fault, _ := p.state(); fault == cut {
		return
	}
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	p.conns[client], p.conns[server] = struct{}{}, struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, client)
		delete(p.conns, server)
	}()
	ended := make(chan struct{}, 2)
	for _, way := range []struct {
		from, to net.Conn
		up       bool
	}{{client, server, true}, {server, client, false}} {
		go func() {
			p.pump(way.from, way.to, way.up)
			ended <- struct{}{}
		}()
	}
	<-ended
}

// pump copies one direction, as the fault allows.
func (p *proxy) pump(from io.Reader, to io.Writer, up bool) {
	buf := make([]byte, 32<<10)
	for {
		fault, changed := p.state()
		part := buf
		switch {
		case fault == blackHole, fault == oneWay && up:
			<-changed
			continue
		case fault == slow:
			part = buf[:4<<10]
			time.Sleep(30 * time.Millisecond)
		}
		n, err := from.Read(part)
		if fault, changed := p.state(); fault == blackHole || fault == oneWay && up {
			<-changed
		}
		if n > 0 {
			if _, err := to.Write(part[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// link is all proxies of one program or server.
type link struct {
	name string
	all  []*proxy
}

// link adds a link with a proxy to each address, and returns the proxies' addresses.
func (s *stack) link(name string, to ...string) (addresses []string, err error) {
	l := link{name: name}
	for _, at := range to {
		p, err := newProxy(at)
		if err != nil {
			return nil, err
		}
		s.Cleanup(p.close)
		l.all, addresses = append(l.all, p), append(addresses, p.address())
	}
	s.links = append(s.links, l)
	return addresses, nil
}

// proxyVictims returns the links.
func (s *stack) proxyVictims() (all []victims) {
	for _, l := range s.links {
		v := victims{fmt.Sprintf("%s link", l.name), []string{l.name}, nil, 3 * time.Second, 10 * time.Second,
			6 * time.Second, nobody}
		for _, fault := range []string{cut, blackHole, oneWay, slow} {
			v.kinds = append(v.kinds, kind{fault, time.Second, time.Minute, func(_ int, wait func()) error {
				for _, p := range l.all {
					p.set(fault)
				}
				wait()
				for _, p := range l.all {
					p.set("")
				}
				return nil
			}})
		}
		all = append(all, v)
	}
	return all
}
