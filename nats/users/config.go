package users

import (
	"fmt"
	"strings"
	"time"

	"ao/nats/subject"
)

// The accounts.
const (
	AccountCoordinators = "AO" // coordinators, and the streams
	accountWorkers      = "WORKERS"
	accountPublishers   = "PUBLISHERS"
)

// account is the account of each role.
var account = map[Role]string{Coordinator: AccountCoordinators, Worker: accountWorkers, Publisher: accountPublishers}

// Account returns the account a role logs in to.
func (r Role) Account() string { return account[r] }

// The limits of allow_responses: how many responses to a message are allowed, and for how long. Several, since
// a run is put off again while the outcome of its claim is unknown.
const (
	MaxResponses   = 4
	ResponseWindow = time.Minute
)

// connections are the limits of a role's connections to all servers. NATS has none for a single user.
type connections struct {
	most          int // connections of the role
	subscriptions int // of one connection
}

// limits are what keeps connections and memory for others. A worker has a connection, and a subscription for each task
// queue: two thousand at most. A publisher needs one of each. Coordinators have the server's limits.
var limits = map[Role]connections{
	Worker:    {most: 4096, subscriptions: 2500},
	Publisher: {most: 64, subscriptions: 100},
}

// line is the line of the configuration; empty: the server's limits apply.
func (c connections) line() string {
	if c.most == 0 {
		return ""
	}
	return fmt.Sprintf("    limits: {max_connections: %d, max_subscriptions: %d}\n", c.most, c.subscriptions)
}

// TLS is the server's certificate, as its configuration has it. No Cert: no TLS.
type TLS struct{ Cert, Key string }

// The first line of the configuration, current and old.
const (
	title = "# The users of Agent Orchestrator and what each may do. 'ao init' renews it: add lines of your " +
		"own, change none of these.\n"
	oldTitle = "# The users of Agent Orchestrator and what each may do. Made by 'ao init', which makes it anew: " +
		"write nothing here.\n"
)

// shareOption makes a server name the users whose requests an account imports.
const shareOption = ", share: true"

// Config returns the configuration of a NATS server with these users, to be included or read by an embedded server
// (AO_NATS_USERS). It contains public keys only.
func Config(all []User, tls TLS) string {
	var b strings.Builder
	b.WriteString(title + "# It holds no secrets. Why three accounts: shared/docs/decisions/0018-nats-users.md\n\n")
	if tls.Cert != "" {
		fmt.Fprintf(&b, "tls {\n  cert_file: %q\n  key_file: %q\n  min_version: \"1.2\"\n}\n\n", tls.Cert, tls.Key)
	}
	b.WriteString("accounts {\n")
	for _, role := range []Role{Coordinator, Worker, Publisher} {
		fmt.Fprintf(&b, "  %s {\n", account[role])
		if role == Coordinator {
			b.WriteString("    jetstream: enabled\n")
		}
		b.WriteString(limits[role].line())
		b.WriteString("    users: [\n")
		for _, u := range all {
			if u.Role == role {
				u.write(&b, all)
			}
		}
		b.WriteString("    ]\n    exports: [\n")
		for _, line := range exports(role, all) {
			fmt.Fprintf(&b, "      %s\n", line)
		}
		b.WriteString("    ]\n    imports: [\n")
		for _, line := range imports(role, all) {
			fmt.Fprintf(&b, "      %s\n", line)
		}
		b.WriteString("    ]\n  }\n")
	}
	b.WriteString("}\n")
	return b.String()
}

func (u User) write(b *strings.Builder, all []User) {
	fmt.Fprintf(b, "      # %s\n      {nkey: %s", u.Name, u.Key)
	if u.Role == Coordinator {
		b.WriteString("}\n")
		return
	}
	r := u.Permissions(all)
	b.WriteString(", permissions: {\n        publish: {allow: " + list(r.Publish))
	if len(r.Deny) > 0 {
		b.WriteString(", deny: " + list(r.Deny))
	}
	b.WriteString("}\n        subscribe: {allow: " + list(r.Subscribe) + "}\n")
	if r.AllowResponses {
		fmt.Fprintf(b, "        allow_responses: {max: %d, expires: %q}\n", MaxResponses, ResponseWindow)
	}
	b.WriteString("      }}\n")
}

func list(subjects []string) string { return `["` + strings.Join(subjects, `", "`) + `"]` }

// exports are what an account offers others. Coordinators export the services and the replies to publishers;
// workers export their runners' commands.
func exports(role Role, all []User) (lines []string) {
	switch role {
	case Worker:
		return []string{fmt.Sprintf("{service: %q, accounts: [%s]}", subject.AllCommands, AccountCoordinators)}
	case Publisher:
		return nil
	}
	for _, other := range []Role{Worker, Publisher} {
		for _, s := range services[other] {
			more := ""
			if s.stream {
				more += ", response_type: stream"
			}
			if s.threshold != "" {
				more += fmt.Sprintf(", response_threshold: %q", s.threshold)
			}
			lines = append(lines, fmt.Sprintf("{service: %q, accounts: [%s]%s}", s.subject, account[other], more))
		}
	}
	for _, u := range all {
		if u.Role == Publisher {
			lines = append(lines, fmt.Sprintf("{stream: %q, accounts: [%s]}", u.InboxPrefix()+".>", accountPublishers))
		}
	}
	return lines
}

func imports(role Role, all []User) (lines []string) {
	if role == Coordinator {
		return []string{fmt.Sprintf("{service: {account: %s, subject: %q}}", accountWorkers, subject.AllCommands)}
	}
	for _, s := range services[role] {
		more := ""
		if s.named {
			more = shareOption
		}
		lines = append(lines, fmt.Sprintf("{service: {account: %s, subject: %q}%s}", AccountCoordinators, s.subject,
			more))
	}
	for _, u := range all {
		if role == Publisher && u.Role == Publisher {
			lines = append(lines, fmt.Sprintf("{stream: {account: %s, subject: %q}}", AccountCoordinators,
				u.InboxPrefix()+".>"))
		}
	}
	return lines
}
