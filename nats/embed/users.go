package embed

import (
	"fmt"
	"net"
	"slices"

	"ao/nats/users"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// readUsers reads AO_NATS_USERS. This process logs in at its own server with credentials that last as long as
// it does: those of a coordinator and of a worker.
func readUsers(file string) (*server.Options, map[users.Role]users.Credential, error) {
	opts, err := server.ProcessConfigFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("AO_NATS_USERS %q: %w; name the file nats/users.conf that 'ao init' creates", file,
			err)
	}
	if len(opts.Nkeys)+len(opts.Users) == 0 {
		return nil, nil, fmt.Errorf("AO_NATS_USERS %q names no users; name the file nats/users.conf that 'ao "+
			"init' makes", file)
	}
	own := map[users.Role]users.Credential{}
	for _, role := range []users.Role{users.Coordinator, users.Worker} {
		at := slices.IndexFunc(opts.Accounts, func(a *server.Account) bool { return a.Name == role.Account() })
		if at < 0 {
			return nil, nil, fmt.Errorf("AO_NATS_USERS %q has no account %s; name the file nats/users.conf that "+
				"'ao init' makes", file, role.Account())
		}
		c, err := users.New("this process", role)
		if err != nil {
			return nil, nil, err
		}
		own[role] = c
		opts.Nkeys = append(opts.Nkeys, &server.NkeyUser{Nkey: c.Key, Account: opts.Accounts[at],
			Permissions: permissions(c.Permissions(nil))})
	}
	return opts, own, nil
}

// permissions converts permissions to the server's type.
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

// DialAs is Dial with the permissions of a role, if a login is required.
func (s *Server) DialAs(role users.Role, opts ...nats.Option) (*nats.Conn, error) {
	if c, ok := s.credentials[role]; ok {
		opts = append(opts[:len(opts):len(opts)], nats.Nkey(c.Key, c.Sign), nats.CustomInboxPrefix(c.InboxPrefix()))
	}
	return nats.Connect("", append([]nats.Option{nats.InProcessServer(s)}, opts...)...)
}

// InProcessConn connects to the running server. Connections from before a restart reconnect with it.
func (s *Server) InProcessConn() (net.Conn, error) { return s.ns.Load().InProcessConn() }

// TLS reports whether other processes must use TLS.
func (s *Server) TLS() bool { return s.tls }
