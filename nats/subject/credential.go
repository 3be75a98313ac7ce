package subject

import "strings"

// inboxes is how the inboxes of those who log in begin; their doors follow. It is no "_INBOX.", so that nobody can listen to all.
const inboxes = "_INBOX_"

// CredentialID is the token under which a user of NATS is spoken to: no other may listen there. It is made of the user's public nkey, so
// that the user and who writes the permissions agree without a word.
func CredentialID(publicKey string) string { return publicKey[:min(len(publicKey), 20)] }

// InboxPrefix is the prefix of all inboxes of a user, as nats.CustomInboxPrefix takes it.
func InboxPrefix(door string) string { return inboxes + door }

// CredentialIDOf is the door whose inboxes have that prefix; "": nobody's in particular.
func CredentialIDOf(inbox string) string {
	door, ok := strings.CutPrefix(inbox, inboxes)
	if !ok {
		return ""
	}
	return door
}

// CommandsFor is Commands of a runner that logged in: its user's own. Where nobody logs in there is no door.
func CommandsFor(door, runner string) string {
	if door == "" {
		return Commands(runner)
	}
	return Commands(door + "." + runner)
}

// AllCommands is what all runners behind doors are told.
const AllCommands = "ao.commands.*.*"

// OpRecord is the operation under Fleet that tells a worker of a record of its own attempt.
const OpRecord = "record"

// Register is the request to register a runner of a profile: who may make it is a question of permissions. Where nobody logs in
// it is Fleet("register").
func Register(executorType, profile string) string {
	return RunnerAPI("register") + "." + executorType + "." + profile
}

// Pull is the request for a lane's next runs, by its durable consumer; "*" is any.
func Pull(durable string) string { return "$JS.API.CONSUMER.MSG.NEXT." + Runs + "." + durable }

// Acks is how the acknowledgements of what lanes deliver begin.
const Acks = "$JS.ACK." + Runs + ".*.>"

// ReplyAllowed tells whether a request's reply subject may be answered: an inbox, not what servers and streams listen to. An answer
// is sent with the rights of who answers, so that who asks could borrow them otherwise.
func ReplyAllowed(reply string) bool {
	return reply != "" && reply[0] != '$' && !strings.HasPrefix(reply, "ao.")
}
