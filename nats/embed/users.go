package embed

import (
	"fmt"
	"net"
	"slices"

	"ao/nats/users"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// admitted reads AO_NATS_USERS. This process logs in at its own server as users of its own, whose keys nobody else has and which
// last as long as it does: a coordinator, and a worker where there is an account for one.
func admitted(file string) (*server.Options, map[users.Role]users.Credential, error) {
	opts, err := server.ProcessConfigFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("AO_NATS_USERS %q: %w; name the file nats/users.conf that 'ao init' makes", file, err)
	}
	if len(opts.Nkeys)+len(opts.Users) == 0 {
		return nil, nil, fmt.Errorf("AO_NATS_USERS %q names no users; name the file nats/users.conf that 'ao init' makes", file)
	}
	own := map[users.Role]users.Credential{}
	for _, role := range []users.Role{users.Coordinator, users.Worker} {
		at := slices.IndexFunc(opts.Accounts, func(a *server.Account) bool { return a.Name == role.Account() })
		if at < 0 {
			return nil, nil, fmt.Errorf("AO_NATS_USERS %q has no account %s; name the file nats/users.conf that 'ao init' makes", file, role.Account())
		}
		c, err := users.New("this process", role)
		if err != nil {
			return nil, nil, err
		}
		own[role] = c
		opts.Nkeys = append(opts.Nkeys, &server.NkeyUser{Nkey: c.Key, Account: opts.Accounts[at], Permissions: permissions(c.Permissions(nil))})
	}
	return opts, own, nil
}

// permissions are rights as the server keeps them.
func permissions(r users.Permissions) *server.Permissions {
	p := &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: r.Publish, Deny: r.Deny},
		Subscribe: &server.SubjectPermission{Allow: r.Subscribe},
	}
	if r.AllowResponses {
		p.Response = &server.ResponsePermission{MaxMsgs: users.MaxResponses, Expires: users.ResponseWindow}
	}
	return p
}

// DialAs is Dial with the rights of that role, where others have to log in.
func (s *Server) DialAs(role users.Role, opts ...nats.Option) (*nats.Conn, error) {
	if c, ok := s.own[role]; ok {
		opts = append(opts[:len(opts):len(opts)], nats.Nkey(c.Key, c.Sign), nats.CustomInboxPrefix(c.InboxPrefix()))
	}
	return nats.Connect("", append([]nats.Option{nats.InProcessServer(s)}, opts...)...)
}

// InProcessConn is a way to the server that runs now: a connection that was made before the last restart comes back through it.
func (s *Server) InProcessConn() (net.Conn, error) { return s.ns.Load().InProcessConn() }

// TLS says whether others must speak TLS. This process needs none to speak to itself.
func (s *Server) TLS() bool { return s.tls }
