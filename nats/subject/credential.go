package subject

import "strings"

// inboxes is the prefix of the inboxes of users; the credential's id follows. It does not begin with "_INBOX.",
// so that nobody can listen to all.
const inboxes = "_INBOX_"

// CredentialID returns the id of a NATS user in subjects, made of the user's public nkey. So the user and the author
// of the permissions agree on it without further configuration.
func CredentialID(publicKey string) string { return publicKey[:min(len(publicKey), 20)] }

// InboxPrefix returns the prefix of all inboxes of a user, for nats.CustomInboxPrefix.
func InboxPrefix(credential string) string { return inboxes + credential }

// CredentialIDOf returns the credential id in an inbox prefix, "" if there is none.
func CredentialIDOf(inbox string) string {
	id, ok := strings.CutPrefix(inbox, inboxes)
	if !ok {
		return ""
	}
	return id
}

// CommandsFor is Commands of a runner that logged in, in its user's own subjects. Without a login there is no
// credential.
func CommandsFor(credential, runner string) string {
	if credential == "" {
		return Commands(runner)
	}
	return Commands(credential + "." + runner)
}

// AllCommands is the commands to all runners that logged in.
const AllCommands = "ao.commands.*.*"

// OpRecord is the operation that returns a record of a worker's own attempt.
const OpRecord = "record"

// Register returns the request to register a runner of a profile; permissions decide who may send it. Without a
// login it is RunnerAPI("register").
func Register(executorType, profile string) string {
	return RunnerAPI("register") + "." + executorType + "." + profile
}

// Pull returns the request for the next runs of a task queue's durable consumer; "*" is any.
func Pull(durable string) string { return "$JS.API.CONSUMER.MSG.NEXT." + Runs + "." + durable }

// Acks is the acknowledgements of deliveries from task queues.
const Acks = "$JS.ACK." + Runs + ".*.>"

// ReplyAllowed reports whether a request's reply subject may be answered: an inbox, but no subject of a server
// or stream. A reply is sent with the replier's permissions, which a requester could otherwise abuse.
func ReplyAllowed(reply string) bool {
	return reply != "" && reply[0] != '$' && !strings.HasPrefix(reply, "ao.")
}
